/* table: a hash table with chains, which doubles when it has as many elements as chains. */
#include "base.h"

uint32_t zkl_hash_text(const char *text, size_t length)
{
    uint32_t hash = 2166136261U; /* FNV-1a */
    for (size_t i = 0; i < length; i++) {
        hash = (hash ^ (uint8_t)text[i]) * 16777619U;
    }
    return hash;
}

uint32_t zkl_hash_number(uint64_t number)
{
    return (uint32_t)(number * 0x9e3779b97f4a7c15U >> 32);
}

static struct zkl_chain_list *chain_of(const zkl_table *table, uint32_t hash)
{
    return &table->chains[hash & (table->size - 1)];
}

static zkl_link *link_of(const zkl_table *table, const void *element)
{
    return (zkl_link *)((uintptr_t)element + table->offset);
}

static void *element_of(const zkl_table *table, const zkl_link *link)
{
    return link != NULL ? (void *)((uintptr_t)link - table->offset) : NULL;
}

bool zkl_table_init(zkl_table *table, size_t offset)
{
    const uint32_t first = 64;
    table->offset = offset;
    table->chains = zkl_alloc(first * sizeof *table->chains);
    table->size = table->chains != NULL ? first : 0;
    return table->chains != NULL;
}

void zkl_table_free(zkl_table *table)
{
    zkl_free(table->chains);
}

static void grow(zkl_table *table)
{
    zkl_table larger = *table;
    larger.size *= 2;
    larger.chains = zkl_alloc(larger.size * sizeof *larger.chains);
    if (larger.chains == NULL) {
        return; /* longer chains work too */
    }
    for (uint32_t i = 0; i < table->size; i++) {
        zkl_link *link;
        while ((link = LIST_FIRST(&table->chains[i])) != NULL) {
            LIST_REMOVE(link, in_chain);
            LIST_INSERT_HEAD(chain_of(&larger, link->hash), link, in_chain);
        }
    }
    zkl_free(table->chains);
    *table = larger;
}

void zkl_table_add(zkl_table *table, void *element, uint32_t hash)
{
    if (table->count >= table->size) {
        grow(table);
    }
    table->count++;
    zkl_link *link = link_of(table, element);
    link->hash = hash;
    LIST_INSERT_HEAD(chain_of(table, hash), link, in_chain);
}

void zkl_table_remove(zkl_table *table, void *element)
{
    table->count--;
    LIST_REMOVE(link_of(table, element), in_chain);
}

static const zkl_link *of_hash(const zkl_link *link, uint32_t hash)
{
    while (link != NULL && link->hash != hash) {
        link = LIST_NEXT(link, in_chain);
    }
    return link;
}

void *zkl_table_find(const zkl_table *table, uint32_t hash)
{
    return element_of(table, of_hash(LIST_FIRST(chain_of(table, hash)), hash));
}

void *zkl_table_find_next(const zkl_table *table, const void *element)
{
    const zkl_link *link = link_of(table, element);
    return element_of(table, of_hash(LIST_NEXT(link, in_chain), link->hash));
}

void *zkl_table_after(const zkl_table *table, const void *element)
{
    const zkl_link *link = element != NULL ? link_of(table, element) : NULL;
    const zkl_link *next = link != NULL ? LIST_NEXT(link, in_chain) : NULL;
    uint32_t chain = link != NULL ? (link->hash & (table->size - 1)) + 1 : 0;
    for (; next == NULL && chain < table->size; chain++) {
        next = LIST_FIRST(&table->chains[chain]);
    }
    return element_of(table, next);
}
