// Calls a matrix product from C++, with parallel loops on std::thread.
#include "kernels.h"

#include <cstdio>
#include <thread>
#include <vector>

namespace {

// A hook for parallel loops: one thread for each worker but the caller.
std::int32_t on_threads(void *, std::int32_t n_workers, kernels_parallel_body body, void *env) {
    std::vector<std::int32_t> results(static_cast<std::size_t>(n_workers), 0);
    std::vector<std::thread> threads;
    for (std::int32_t worker = 1; worker < n_workers; ++worker) {
        threads.emplace_back([&results, body, env, worker] { results[static_cast<std::size_t>(worker)] = body(env, worker); });
    }
    results[0] = body(env, 0);
    for (auto &thread : threads) {
        thread.join();
    }
    std::int32_t failed = 0;
    for (auto result : results) {
        failed |= result;
    }
    return failed;
}

} // namespace

int main() {
    const int m = 64, k = 128, n = 256;
    std::vector<float> a(m * k, 0.5f), b(k * n, 2.0f), c(m * n, -1.0f);
    kernels_set_parallel_for(on_threads, nullptr, 2);
    if (kernels_matmul(a.data(), b.data(), c.data()) != KERNELS_OK) {
        return 1;
    }
    for (auto value : c) {
        if (value != static_cast<float>(k)) {
            std::fprintf(stderr, "found %g; expected %d\n", static_cast<double>(value), k);
            return 1;
        }
    }
    std::puts("matmul: all elements are right");
    return 0;
}
