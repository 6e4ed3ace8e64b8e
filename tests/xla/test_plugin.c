/* Finding and opening XLA's plugin, with all that may be wrong with it. Nothing here needs a real one but the last
 * tests. */
#include "xla/programs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const variables[] = {
    "HODU_XLA_PLUGIN_CPU", "HODU_XLA_PLUGIN_CUDA", "HODU_XLA_PLUGIN", "XDG_DATA_HOME", "HOME",
    "VIRTUAL_ENV",         "CONDA_PREFIX",         "FAKE_PJRT"};
enum { VARIABLES = sizeof variables / sizeof *variables };
static char *kept[VARIABLES];
static char directory[64];

/* An environment in which there is no plugin, and a directory to put some in. */
static int begin(void **state) {
    (void)state;
    for (int i = 0; i < VARIABLES; ++i) {
        const char *value = getenv(variables[i]);
        kept[i] = value != NULL ? strdup(value) : NULL;
        unsetenv(variables[i]);
    }
    strcpy(directory, "/tmp/hodu-xla-XXXXXX");
    if (mkdtemp(directory) == NULL) return -1;
    return setenv("HOME", directory, 1);
}

static int end(void **state) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    const int removed = system(command);
    for (int i = 0; i < VARIABLES; ++i) {
        if (kept[i] != NULL) setenv(variables[i], kept[i], 1);
        if (kept[i] == NULL) unsetenv(variables[i]);
        free(kept[i]);
        kept[i] = NULL;
    }
    return removed != 0 ? -1 : no_leaks(state);
}
#define alone(function) cmocka_unit_test_setup_teardown(function, begin, end)

/* A file below the directory, with the directories that it needs; its path. */
static const char *put(const char *name) {
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    for (char *slash = path + strlen(directory) + 1; (slash = strchr(slash, '/')) != NULL; ++slash) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    const int file = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(file >= 0);
    assert_int_equal(write(file, "no library\n", 11), 11);
    close(file);
    return path;
}

static void assert_found(hd_device_kind kind, const char *expected) {
    char path[HD_XLA_PATH] = "";
    hd_xla_plugin_find(kind, path);
    assert_ok();
    assert_string_equal(path, expected);
}

/* ---- finding ----------------------------------------------------------------------------------------------------- */
static void nothing_there_names_the_command(void **state) {
    (void)state;
    char path[HD_XLA_PATH];
    if (hd_xla_plugin_find(HD_DEVICE_CPU, path) == HD_OK) skip(); /* one is installed for the whole machine */
    assert_true(strstr(hd_error_message(), "HODU_XLA_PLUGIN_CPU and HODU_XLA_PLUGIN, which are not set") != NULL);
    assert_true(strstr(hd_error_message(), directory) != NULL);
    assert_error(HD_ERROR_DEVICE, "there is no XLA plugin for cpu: scripts/get-xla installs it");
    hd_xla_plugin_find(HD_DEVICE_METAL, path);
    assert_error(HD_ERROR_DEVICE, "not on metal");
    hd_xla_plugin_find((hd_device_kind)99, path);
    assert_error(HD_ERROR_DEVICE, "cpu and cuda");
}

static void a_path_that_is_said_is_meant(void **state) {
    (void)state;
    char path[HD_XLA_PATH];
    put(".local/share/hodu/xla_cpu_pjrt.so"); /* there is one, but another was asked for */
    setenv("HODU_XLA_PLUGIN", "/nowhere/plugin.so", 1);
    hd_xla_plugin_find(HD_DEVICE_CPU, path);
    assert_error(HD_ERROR_DEVICE,
                 "HODU_XLA_PLUGIN=/nowhere/plugin.so: No such file or directory; expected XLA's plugin for "
                 "cpu, which scripts/get-xla installs");
    setenv("HODU_XLA_PLUGIN_CPU", "/nowhere/cpu.so", 1);
    hd_xla_plugin_find(HD_DEVICE_CPU, path);
    assert_error(HD_ERROR_DEVICE, "HODU_XLA_PLUGIN_CPU=/nowhere/cpu.so");
    char *long_path = malloc(8192);
    assert_non_null(long_path);
    memset(long_path, 'x', 8191);
    long_path[8191] = '\0';
    setenv("HODU_XLA_PLUGIN_CPU", long_path, 1);
    free(long_path);
    hd_xla_plugin_find(HD_DEVICE_CPU, path);
    assert_error(HD_ERROR_VALUE, "a path of 8191 bytes");
}

static void places_are_looked_at_in_order(void **state) {
    (void)state;
    char expected[512];
#define PUT(name) strcpy(expected, put(name))
    PUT(".local/lib/python3.9/site-packages/xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so");
    assert_found(HD_DEVICE_CPU, expected);
    PUT(".local/lib/python3.11/site-packages/xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"); /* a newer Python */
    assert_found(HD_DEVICE_CPU, expected);
    PUT("venv/lib/python3.8/site-packages/xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so");
    char venv[512];
    snprintf(venv, sizeof venv, "%s/venv", directory);
    setenv("VIRTUAL_ENV", venv, 1);
    assert_found(HD_DEVICE_CPU, expected);
    PUT(".local/share/hodu/xla_cpu_pjrt.so");
    assert_found(HD_DEVICE_CPU, expected);
    setenv("XDG_DATA_HOME", "relative", 1); /* is to be ignored */
    assert_found(HD_DEVICE_CPU, expected);
    PUT("data/hodu/xla_cpu_pjrt.so");
    char data[512];
    snprintf(data, sizeof data, "%s/data", directory);
    setenv("XDG_DATA_HOME", data, 1);
    assert_found(HD_DEVICE_CPU, expected);
    PUT("any.so");
    setenv("HODU_XLA_PLUGIN", expected, 1);
    assert_found(HD_DEVICE_CPU, expected);
    assert_found(HD_DEVICE_CUDA, expected);
    PUT("cpu.so");
    setenv("HODU_XLA_PLUGIN_CPU", expected, 1);
    assert_found(HD_DEVICE_CPU, expected);
    unsetenv("HODU_XLA_PLUGIN");
    PUT("venv/lib/python3.8/site-packages/jax_plugins/xla_cuda13/xla_cuda_plugin.so");
    assert_found(HD_DEVICE_CUDA, expected);
#undef PUT
}

/* The packages of the Python that would be started. */
static void python_is_looked_for_on_the_path(void **state) {
    (void)state;
    char *before = strdup(getenv("PATH")), path[256], expected[512];
    put("python/bin/python3");
    put("python/lib/python3.12/site-packages/jax_plugins/xla_cuda13/xla_cuda_plugin.so");
    snprintf(path, sizeof path, "/nowhere:%s/python/bin", directory);
    setenv("PATH", path, 1);
    snprintf(expected, sizeof expected,
             "%s/python/bin/../lib/python3.12/site-packages/jax_plugins/xla_cuda13/xla_cuda_plugin.so", directory);
    assert_found(HD_DEVICE_CUDA, expected);
    setenv("PATH", before, 1);
    free(before);
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */
static void open_file(const char *path) {
    static hd_xla_plugin plugin;
    hd_xla_plugin_open(HD_DEVICE_CPU, path, &plugin);
}
static void open_fake(const char *wrong) {
    setenv("FAKE_PJRT", wrong, 1);
    open_file(FAKE_PLUGIN);
}

static void files_that_are_no_plugins(void **state) {
    (void)state;
    open_file(put("text.so"));
    assert_error(HD_ERROR_DEVICE, "which scripts/get-xla installs");
    open_file("libm.so.6");
    assert_error(HD_ERROR_DEVICE, "libm.so.6 is a library without GetPjrtApi");
    setenv("HODU_XLA_PLUGIN", put("text.so"), 1);
    assert_null(hd_xla_device_of(hd_cpu()));
    assert_error(HD_ERROR_DEVICE, "cannot be opened as a library");
}

static void plugins_that_are_too_old_or_too_new(void **state) {
    (void)state;
    open_fake("old");
    assert_error(HD_ERROR_DEVICE, "has PJRT 0.56, expected 0.57 or a later 0; scripts/get-xla installs one");
    open_fake("next");
    assert_error(HD_ERROR_DEVICE, "has PJRT 1.81, expected 0.57");
}

static void tables_that_are_too_small(void **state) {
    (void)state;
    open_fake("null");
    assert_error(HD_ERROR_DEVICE, "GetPjrtApi gives no table");
    open_fake("tiny");
    assert_error(HD_ERROR_DEVICE, "its PJRT table is 16 bytes, expected 40 and more");
    open_fake("short");
    assert_error(HD_ERROR_DEVICE, "(PJRT 0.81, a table of 480 bytes) has no PJRT_LoadedExecutable_Execute");
    open_fake("hole");
    assert_error(HD_ERROR_DEVICE, "has no PJRT_Client_BufferFromHostBuffer; scripts/get-xla installs");
}

static void what_is_optional_may_be_missing(void **state) {
    (void)state;
    hd_xla_plugin plugin;
    setenv("FAKE_PJRT", "plain", 1);
    hd_xla_plugin_open(HD_DEVICE_CPU, FAKE_PLUGIN, &plugin);
    assert_ok();
    assert_null(plugin.serialize);
    assert_null(plugin.memory_stats);
    assert_int_equal(plugin.minor, 81);
    assert_int_equal(plugin.stablehlo[2], 3);
    assert_true(strstr(plugin.identity, "pjrt 0.81 stablehlo 1.2.3") != NULL);
}

static void errors_of_the_plugin_have_its_words(void **state) {
    (void)state;
    open_fake("sad");
    assert_error(HD_ERROR_DEVICE, "XLA's plugin does not start: all is lost");
    open_fake("full");
    assert_error(HD_ERROR_MEMORY, "XLA's plugin does not start: all is lost");
}

static void clients_of_the_wrong_kind(void **state) {
    (void)state;
    setenv("HODU_XLA_PLUGIN_CPU", FAKE_PLUGIN, 1);
    setenv("FAKE_PJRT", "clientless", 1);
    assert_null(hd_xla_device_of(hd_cpu()));
    assert_error(HD_ERROR_DEVICE, "gives no client");
    setenv("FAKE_PJRT", "", 1);
    assert_null(hd_xla_device_of(hd_cpu()));
    assert_error(HD_ERROR_DEVICE, "XLA's plugin is for \"toaster\", expected one for \"cpu\"");
    assert_null(hd_xla_device_of((hd_device){(hd_device_kind)99, 0}));
    assert_error(HD_ERROR_DEVICE, "99");
}

/* ---- a real one -------------------------------------------------------------------------------------------------- */
static void the_real_one_opens_and_says_nothing_on_stderr(void **state) {
    (void)state;
    if (!has_plugin()) skip();
    unsetenv("HODU_XLA_LOG");
    char path[] = "/tmp/hodu-xla-XXXXXX", said[256] = "";
    const int file = mkstemp(path), standard = dup(STDERR_FILENO);
    assert_true(file >= 0 && standard >= 0);
    dup2(file, STDERR_FILENO);
    const hd_xla_device *device = hd_xla_device_of(hd_cpu());
    dup2(standard, STDERR_FILENO);
    close(standard);
    assert_true(pread(file, said, sizeof said - 1, 0) >= 0);
    close(file);
    unlink(path);
    assert_ok();
    assert_string_equal(said, "");
    assert_ptr_equal(device, hd_xla_device_of(hd_cpu()));
    assert_true(device->client->plugin.minor >= HD_PJRT_LEAST_MINOR);
    assert_true(device->client->plugin.stablehlo[0] >= 1);
}

RUN(alone(nothing_there_names_the_command), alone(a_path_that_is_said_is_meant), alone(places_are_looked_at_in_order),
    alone(python_is_looked_for_on_the_path), alone(files_that_are_no_plugins),
    alone(plugins_that_are_too_old_or_too_new), alone(tables_that_are_too_small),
    alone(what_is_optional_may_be_missing), alone(errors_of_the_plugin_have_its_words),
    alone(clients_of_the_wrong_kind), test(the_real_one_opens_and_says_nothing_on_stderr))
