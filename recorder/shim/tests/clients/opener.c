/* Opens plugins, each with a scope of its own, and calls them in turn: opener ROUNDS PLUGIN... */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

typedef void (*Through)(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *, int);

int main(int argc, char **argv) {
    void *plugins[16];
    for (int i = 2; i < argc && i < 16; i++) {
        plugins[i] = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
        if (!plugins[i]) {
            printf("%s\n", dlerror());
            return 1;
        }
    }
    int through = atoi(argv[1]) < 0;
    for (int round = 0; round < abs(atoi(argv[1])); round++)
        for (int i = 2; i < argc && i < 16; i++) {
            float a[64] = {1, 1, 1, 1}, b[64] = {1, 1, 1, 1}, c[64] = {0};
            if (through) {
                Through call = (Through)dlsym(plugins[i], "plugin_through");
                call(101, 111, 112, 2, 2, 4, 1, a, 4, b, 4, 0, c, 2);
                printf("%d: %g\n", i, c[0]);
            } else {
                float (*call)(int) = (float (*)(int))dlsym(plugins[i], "plugin_product");
                printf("%d: %g\n", i, call(3));
            }
        }
    return 0;
}
