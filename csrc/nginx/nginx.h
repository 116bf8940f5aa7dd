/*
 * nginx: what only nginx has. Its functions are looked up at run time; where there is no nginx, there are no scopes.
 *
 * For the thread that runs the request and owns the handles.
 */
#ifndef ZKLOCK_NGINX_H
#define ZKLOCK_NGINX_H

#include "client/client.h"

/* The acquisitions of one nginx request, which end with the request. scope.c describes ownership. */
typedef struct zkl_scope zkl_scope;

/*
 * Returns a new scope of an nginx request, with one reference for the caller; NULL if there is no nginx, or no memory.
 * `in_stream`: the request is the stream module's.
 */
zkl_scope *zkl_scope_open(void *request, bool in_stream);
/* Drops the caller's reference. The scope remains until its request ends. */
void zkl_scope_release(zkl_scope *scope);
/* The scope's request; NULL once the request has ended. */
void *zkl_scope_request(const zkl_scope *scope);
/*
 * Reads the number that nginx's Lua module has for the request at present. Returns false once the request has ended. The number
 * changes when nginx redirects the request internally: the module then starts anew.
 */
bool zkl_scope_context(const zkl_scope *scope, int32_t *context);
/* Makes an acquisition end with the scope: it is released if granted, cancelled if waiting; at once if the scope has ended. */
void zkl_scope_add(zkl_scope *scope, zkl_handle *handle);

#endif
