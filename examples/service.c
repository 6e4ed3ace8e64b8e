/* A service: a network in a file answers over a Unix socket, on four threads, in microseconds.
 *
 * Started without words it makes a network, saves it as a script, starts itself once more with --serve FILE SOCKET,
 * asks it from four threads of its own, compares what it is told with the network's own answers, and says how long
 * answers took. A question is 64 numbers of f32, the answer 10; one connection asks as often as it likes. The service
 * ends when its standard input does, so that it never outlives who started it. */
#define _POSIX_C_SOURCE 200809L
#include <hodu/hodu.h>

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FEATURES = 64, CLASSES = 10, THREADS = 4, QUESTIONS = 1000, DIFFERENT = 16 };

/* ---- bytes through a socket -------------------------------------------------------------------------------------- */
/* False when the other side is gone. */
static bool read_all(int from, void *to, size_t bytes) {
    for (char *at = to; bytes > 0;) {
        const ssize_t got = read(from, at, bytes);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        at += got;
        bytes -= (size_t)got;
    }
    return true;
}

static bool write_all(int to, const void *from, size_t bytes) {
    for (const char *at = from; bytes > 0;) {
        const ssize_t put = write(to, at, bytes);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return false;
        at += put;
        bytes -= (size_t)put;
    }
    return true;
}

static bool address_of(const char *path, struct sockaddr_un *out) {
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof out->sun_path) return fprintf(stderr, "service: %s: too long a name\n", path), false;
    strcpy(out->sun_path, path);
    return true;
}

static int trouble(const char *what) { return fprintf(stderr, "service: %s: %s\n", what, strerror(errno)), -1; }

/* ---- the service ------------------------------------------------------------------------------------------------- */
typedef struct worker {
    pthread_t thread;
    hd_script *script; /* its own: a script runs on one thread at a time */
    int door;          /* the socket where connections arrive */
    bool failed;
} worker;

/* Waits until there is something to read; false when the service is to end. */
static bool wait_for(int source) {
    struct pollfd wanted[2] = {{.fd = source, .events = POLLIN}, {.fd = STDIN_FILENO, .events = POLLIN}};
    while (poll(wanted, 2, -1) < 0)
        if (errno != EINTR) return trouble("poll") == 0;
    return wanted[1].revents == 0;
}

/* The next connection; -1 when the service is to end. */
static int next_connection(int door) {
    while (wait_for(door)) {
        const int connection = accept(door, NULL, NULL);
        if (connection >= 0) return connection; /* else another thread was quicker */
    }
    return -1;
}

static bool answer(hd_script *script, int connection) {
    float features[FEATURES], logits[CLASSES];
    if (!wait_for(connection) || !read_all(connection, features, sizeof features)) return false;
    HD_SCOPE; /* a question's tensors go with it */
    hd_script_set_input(script, "x", hd_from_data(features, HD_SHAPE(1, FEATURES), HD_F32));
    hd_to_array(hd_outputs_get(hd_script_run(script), "logits"), logits, HD_F32, CLASSES);
    return hd_ok() && write_all(connection, logits, sizeof logits);
}

static void *work(void *context) {
    worker *w = context;
    for (int connection; hd_ok() && (connection = next_connection(w->door)) >= 0; close(connection))
        while (answer(w->script, connection)) {}
    w->failed = !hd_ok(); /* the error is this thread's, and was printed when it arose */
    return NULL;
}

static int serve(const char *file, const char *path) {
    HD_SCOPE;
    struct sockaddr_un address;
    hd_script *script = hd_script_load(file);
    hd_script_compile(script); /* before anybody asks */
    const int door = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (!hd_ok() || !address_of(path, &address)) return 1;
    if (door < 0 || bind(door, (struct sockaddr *)&address, sizeof address) < 0 || listen(door, 64) < 0)
        return trouble(path), 1;
    hd_set_num_threads(1); /* one question is small: threads answer different ones */
    worker workers[THREADS];
    int status = 0, started = 0;
    for (int i = 0; i < THREADS; ++i) /* before the first one works on the script */
        workers[i] = (worker){.script = i == 0 ? script : hd_script_clone(script), .door = door};
    for (; hd_ok() && started < THREADS; ++started)
        if (pthread_create(&workers[started].thread, NULL, work, &workers[started]) != 0) break;
    for (int i = 0; i < started; ++i) {
        pthread_join(workers[i].thread, NULL);
        status |= workers[i].failed;
    }
    close(door);
    unlink(path);
    return status | (started < THREADS) | hd_exit_status();
}

/* ---- who asks ---------------------------------------------------------------------------------------------------- */
typedef struct asker {
    pthread_t thread;
    const char *path;
    const float (*questions)[FEATURES];
    const float (*answers)[CLASSES]; /* the network's own */
    double microseconds[QUESTIONS];
    float off; /* by how much an answer differed at most */
    bool failed;
} asker;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

/* The service may still be starting. */
static int connect_to(const char *path) {
    struct sockaddr_un address;
    const int s = socket(AF_UNIX, SOCK_STREAM, 0);
    if (s < 0 || !address_of(path, &address)) return -1;
    for (int tries = 0; tries < 2000; ++tries) {
        if (connect(s, (struct sockaddr *)&address, sizeof address) == 0) return s;
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    return trouble(path);
}

static void *ask(void *context) {
    asker *a = context;
    const int s = connect_to(a->path);
    a->failed = s < 0;
    for (int i = 0; i < QUESTIONS && !a->failed; ++i) {
        float logits[CLASSES];
        const double begin = now();
        a->failed =
            !write_all(s, a->questions[i % DIFFERENT], sizeof a->questions[0]) || !read_all(s, logits, sizeof logits);
        a->microseconds[i] = now() - begin;
        for (int c = 0; c < CLASSES; ++c) a->off = fmaxf(a->off, fabsf(logits[c] - a->answers[i % DIFFERENT][c]));
    }
    if (s >= 0) close(s);
    return NULL;
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int ask_all(const char *path, const float (*questions)[FEATURES], const float (*answers)[CLASSES]) {
    static asker askers[THREADS];
    static double all[THREADS * QUESTIONS];
    float off = 0;
    bool failed = false;
    const double begin = now();
    for (int i = 0; i < THREADS; ++i) {
        askers[i].path = path, askers[i].questions = questions, askers[i].answers = answers;
        if (pthread_create(&askers[i].thread, NULL, ask, &askers[i]) != 0) return trouble("a thread"), 1;
    }
    for (int i = 0; i < THREADS; ++i) {
        pthread_join(askers[i].thread, NULL);
        memcpy(all + i * QUESTIONS, askers[i].microseconds, sizeof askers[i].microseconds);
        off = fmaxf(off, askers[i].off);
        failed = failed || askers[i].failed;
    }
    const double seconds = (now() - begin) * 1e-6;
    if (failed) return fprintf(stderr, "service: a question was not answered\n"), 1;
    enum { COUNT = THREADS * QUESTIONS };
    qsort(all, COUNT, sizeof *all, ascending);
    printf("%d questions on %d connections in %.2f s: %.0f a second\n", COUNT, THREADS, seconds, COUNT / seconds);
    printf("an answer took %.0f us (median), %.0f (90 %%), %.0f (99 %%), %.0f (longest)\n", all[COUNT / 2],
           all[COUNT * 9 / 10], all[COUNT * 99 / 100], all[COUNT - 1]);
    printf("answers are the network's own to %.1g\n", (double)off);
    return off > 1e-5f;
}

/* ---- the network ------------------------------------------------------------------------------------------------- */
/* Saves it as a script of one question, and answers some itself. */
static void make(const char *file, float (*questions)[FEATURES], float (*answers)[CLASSES]) {
    HD_SCOPE;
    hd_seed(1);
    hd_module *model = HD_SEQUENTIAL(hd_linear(FEATURES, 256, NULL), hd_gelu_layer(), hd_linear(256, CLASSES, NULL));
    hd_tensor *x = hd_randn(HD_SHAPE(DIFFERENT, FEATURES), HD_F32);
    HD_NO_GRAD;
    hd_to_array(x, questions, HD_F32, DIFFERENT * FEATURES);
    hd_to_array(hd_forward(model, x), answers, HD_F32, DIFFERENT * CLASSES);
    hd_builder *builder = hd_builder_new("service");
    hd_builder_start(builder);
    hd_builder_add_output(builder, "logits", hd_forward(model, hd_input("x", HD_SHAPE(1, FEATURES), HD_F32)));
    hd_builder_end(builder);
    hd_script_save(hd_builder_build(builder), file);
}

/* This program once more; what is written to *input is its standard input. */
static pid_t start_service(const char *program, const char *file, const char *path, int *input) {
    int ends[2];
    if (pipe(ends) < 0) return trouble("pipe");
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[0], STDIN_FILENO);
        close(ends[0]);
        close(ends[1]); /* else it would wait for itself */
        execlp(program, program, "--serve", file, path, (char *)NULL);
        trouble(program);
        _exit(127);
    }
    close(ends[0]);
    *input = ends[1];
    return child < 0 ? trouble("fork") : child;
}

int main(int count, char **words) {
    signal(SIGPIPE, SIG_IGN); /* who hangs up is no reason to die */
    if (count == 4 && strcmp(words[1], "--serve") == 0) return serve(words[2], words[3]);
    if (count != 1) return fprintf(stderr, "usage: %s [--serve FILE SOCKET]\n", words[0]), 2;
    static float questions[DIFFERENT][FEATURES], answers[DIFFERENT][CLASSES];
    char folder[] = "/tmp/hodu-service-XXXXXX", file[64], path[64];
    if (mkdtemp(folder) == NULL) return trouble("a folder"), 1;
    snprintf(file, sizeof file, "%s/net.hoduscript", folder);
    snprintf(path, sizeof path, "%s/socket", folder);
    make(file, questions, answers);
    int status = hd_exit_status(), input = -1, ended = 1;
    const pid_t service = status == 0 ? start_service(words[0], file, path, &input) : -1;
    if (service > 0) status = ask_all(path, (const float(*)[FEATURES])questions, (const float(*)[CLASSES])answers);
    if (input >= 0) close(input);
    if (service < 0 || waitpid(service, &ended, 0) < 0) ended = 1;
    unlink(file);
    rmdir(folder);
    return status | (ended != 0);
}
