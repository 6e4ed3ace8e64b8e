/* A .hoduscript file as C: hodu-export [options] model.hoduscript path/to/net, which writes net.h and net.c there.
 *     --prefix NAME      of all names; else the last part of the path
 *     --function NAME    what a run is called: <prefix>_<NAME>; else run
 *     --align BYTES      of arena and state
 *     --size             plain loops, for little code
 *     --all-state        state that no run changes is no constant */
#include <hodu/hodu.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int usage(void) {
    fprintf(stderr, "usage: hodu-export [--prefix NAME] [--function NAME] [--align BYTES] [--size] [--all-state] "
                    "model.hoduscript path/to/net\n");
    return 2;
}

/* -1, which is no alignment: it is no number. */
static int whole(const char *text) {
    char *end;
    const long v = strtol(text, &end, 10);
    return *text == '\0' || *end != '\0' || v < 0 || v > 1 << 20 ? -1 : (int)v;
}

int main(int argc, char **argv) {
    HD_SCOPE;
    hd_export_opts opts = HD_DEFAULTS(hd_export_opts);
    int i = 1;
    for (; i < argc && strncmp(argv[i], "--", 2) == 0; ++i) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--size") == 0)
            opts.goal = HD_EXPORT_SIZE;
        else if (strcmp(argv[i], "--all-state") == 0)
            opts.all_state = true;
        else if (value == NULL)
            return usage();
        else if (strcmp(argv[i], "--prefix") == 0)
            opts.prefix = argv[++i];
        else if (strcmp(argv[i], "--function") == 0)
            opts.function = argv[++i];
        else if (strcmp(argv[i], "--align") == 0)
            opts.alignment = whole(argv[++i]);
        else
            return usage();
    }
    if (argc - i != 2) return usage();
    hd_script_export(hd_script_load(argv[i]), argv[i + 1], &opts);
    return hd_exit_status();
}
