/* Cases of bench_grad and bench_static in PyTorch's C++ library, as peers.py has them in Python, by the same protocol:
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
static std::vector<double> check; /* a few numbers of the last case's result, which every side must get */

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

/* As bench/static.h makes them. */
static Tensor numbers(torch::IntArrayRef shape, uint32_t seed, float scale) {
    Tensor t = torch::empty(shape);
    float *value = t.data_ptr<float>();
    for (uint32_t i = 0; i < static_cast<uint32_t>(t.numel()); ++i) {
        uint32_t h = i * 0x9e3779b1u + seed * 0x85ebca77u;
        h = (h ^ h >> 15) * 0x2c1b3c6du;
        h ^= h >> 12;
        value[i] = (static_cast<float>(h >> 8) * 0x1p-23f - 1) * scale;
    }
    return t;
}
static Tensor weight(torch::IntArrayRef shape, uint32_t seed) { return numbers(shape, seed, 0.0625f); }

/* A call without gradients, whose result is noted for the comparison. */
static Call forward(const std::function<Tensor()> &network) {
    const auto call = [=] {
        torch::NoGradGuard guard;
        return network();
    };
    const Tensor y = call().reshape(-1).to(torch::kFloat64);
    check = {y.square().mean().sqrt().item<double>(), y[0].item<double>(), y[y.numel() / 3].item<double>(),
             y[-1].item<double>()};
    return [=] { call(); };
}

template <int64_t batch, int64_t in, int64_t hidden, int64_t out> static Call block() {
    const Tensor x = numbers({batch, in}, 1, 2), w0 = weight({in, hidden}, 10), b0 = weight({hidden}, 11),
                 w1 = weight({hidden, hidden}, 12), b1 = weight({hidden}, 13), w2 = weight({hidden, out}, 14),
                 b2 = weight({out}, 15), fit = in != out ? weight({in, out}, 16) : Tensor();
    return forward([=] {
        Tensor h = torch::gelu(torch::addmm(b0, x, w0), "tanh");
        h = torch::gelu(torch::addmm(b1, h, w1), "tanh");
        return torch::addmm(b2, h, w2) + (in != out ? x.mm(fit) : x);
    });
}

static Call digits() {
    const Tensor x = numbers({1, 784}, 1, 2), w0 = weight({784, 128}, 10), b0 = weight({128}, 11),
                 w1 = weight({128, 10}, 12), b1 = weight({10}, 13);
    return forward([=] { return torch::addmm(b1, torch::relu(torch::addmm(b0, x, w0)), w1); });
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
    {"static/mlp-32x256x512x256", "us", block<32, 256, 512, 256>},
    {"static/mlp-64x512x1024x512", "us", block<64, 512, 1024, 512>},
    {"static/mlp-128x768x2048x1024", "us", block<128, 768, 2048, 1024>},
    {"static/mlp-1x784x128x10", "us", digits},
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
        check.clear();
        const double value = median_seconds(c.prepare()) * (c.unit == "ns" ? 1e9 : 1e6);
        std::printf("{\"case\": \"%s\", \"unit\": \"%s\", \"value\": %.6g, \"check\": [", c.name.c_str(),
                    c.unit.c_str(), value);
        for (size_t i = 0; i < check.size(); ++i) std::printf("%s%.9g", i > 0 ? ", " : "", check[i]);
        std::puts("]}");
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
