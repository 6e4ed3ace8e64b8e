/* Cases of bench_grad in PyTorch's C++ library, as peers.py has them in Python, by the same protocol:
 *
 *     peers_libtorch [PATTERN]    measures the cases with PATTERN in their name, one JSON line each
 *     peers_libtorch --serve      measures the case that each line of stdin names ({} when it is not here)
 *
 * scripts/bench compiles it against the PyTorch in .venv. To add a case, add a row to CASES: its name, its unit, and
 * what makes the call to time. */
#include <torch/torch.h>
#include <torch/version.h>

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

namespace nn = torch::nn;
using torch::Tensor;
using Call = std::function<void()>;

static Tensor parameter(torch::IntArrayRef shape) { return torch::randn(shape).requires_grad_(); }

static Call add_2x3() {
    return [x = parameter({2, 3}), y = parameter({2, 3})] { Tensor z = x + y; };
}

static Call linear_3x1() {
    nn::Linear model(3, 1);
    auto sgd = std::make_shared<torch::optim::SGD>(model->parameters(), 0.01);
    return [=, x = torch::randn({100, 3}), y = torch::randn({100, 1})]() mutable {
        torch::mse_loss(model->forward(x), y).backward();
        sgd->step();
        sgd->zero_grad();
    };
}

static Call mlp() {
    nn::Sequential model(nn::Linear(512, 1024), nn::ReLU(), nn::Linear(1024, 512));
    return [=, x = torch::randn({64, 512}), y = torch::randn({64, 512})]() mutable {
        torch::mse_loss(model->forward(x), y).backward();
        model->zero_grad();
    };
}

static Call backward_chain() {
    Tensor x = parameter({2, 3}), y = parameter({2, 3}), z = x;
    for (int i = 0; i < 100000; ++i) z = z + y;
    return [=, seed = torch::ones({2, 3})] { z.backward(seed, /*retain_graph=*/true); };
}

static Call cross_entropy() {
    return [x = parameter({64, 1000}), target = torch::randint(1000, {64})]() mutable {
        nn::functional::cross_entropy(x, target).backward();
        x.mutable_grad().reset();
    };
}

static Call gelu() {
    return [x = parameter({1 << 20}), seed = torch::randn({1 << 20})]() mutable {
        torch::gelu(x).backward(seed);
        x.mutable_grad().reset();
    };
}

static const struct {
    std::string name, unit;
    Call (*prepare)();
} CASES[] = {
    {"grad/add-2x3-taped", "ns", add_2x3},
    {"grad/linear-3x1-epoch", "us", linear_3x1},
    {"grad/mlp-64x512x1024x512", "us", mlp},
    {"grad/backward-chain-1e5", "us", backward_chain},
    {"grad/softmax-cross-entropy-64x1000", "us", cross_entropy},
    {"grad/gelu-2^20", "us", gelu},
};

/* As bench/harness.h: once unmeasured, then samples of 2 ms or one call, and their median. */
static double median_seconds(const Call &call) {
    const char *wanted = std::getenv("BENCH_SECONDS");
    const double least = wanted != nullptr ? std::atof(wanted) : 0.3;
    const auto sample = [&](long repeat) {
        const auto begin = std::chrono::steady_clock::now();
        for (long i = 0; i < repeat; ++i) call();
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    sample(1);
    long repeat = 1;
    while (sample(repeat) < 2e-3) repeat *= 2;
    std::vector<double> samples;
    for (double spent = 0; spent < least || samples.size() < 7; spent += samples.back())
        samples.push_back(sample(repeat));
    std::sort(samples.begin(), samples.end());
    const size_t n = samples.size();
    return (samples[(n - 1) / 2] + samples[n / 2]) / 2 / static_cast<double>(repeat);
}

/* Measures the cases that `chosen` picks and says how many there were. */
static int measure(const std::function<bool(const std::string &)> &chosen) {
    int count = 0;
    for (const auto &c : CASES) {
        if (!chosen(c.name)) continue;
        const double value = median_seconds(c.prepare()) * (c.unit == "ns" ? 1e9 : 1e6);
        std::printf("{\"case\": \"%s\", \"unit\": \"%s\", \"value\": %.6g}\n", c.name.c_str(), c.unit.c_str(), value);
        std::fflush(stdout);
        ++count;
    }
    return count;
}

int main(int argc, char **argv) {
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof cores, &cores) == 0) at::set_num_threads(CPU_COUNT(&cores));
    const std::string pattern = argc > 1 ? argv[1] : "";
    if (pattern != "--serve") {
        measure([&](const std::string &name) { return name.find(pattern) != std::string::npos; });
        return 0;
    }
    std::printf("{\"ready\": \"libtorch\", \"version\": \"%s\"}\n", TORCH_VERSION);
    std::fflush(stdout);
    for (std::string line; std::getline(std::cin, line);)
        if (measure([&](const std::string &name) { return name == line; }) == 0) std::puts("{}"), std::fflush(stdout);
    return 0;
}
