/*
 * replay: passes the named files to a fuzzer's function, one after the other, without libFuzzer. It counts the lines that a
 * fuzzer's corpus runs (tools/coverage.sh) with the compiler that counts those of all other tests.
 */
#include <stdint.h>
#include <stdio.h>

/* The longest input; tools/fuzz.sh makes none that is longer than half of that. */
#define SIZE 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv)
{
    static uint8_t data[SIZE];
    for (int i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        if (file == NULL) {
            perror(argv[i]);
            return 1;
        }
        size_t size = fread(data, 1, sizeof data, file);
        fclose(file);
        LLVMFuzzerTestOneInput(data, size);
    }
    return 0;
}
