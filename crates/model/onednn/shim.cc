// One matrix product on the calling thread through oneDNN, for its C++ interfaces 2.x and 3.x.
#include <cstdio>
#include <dnnl.hpp>
#include <new>
#include <unordered_map>

extern "C" void omp_set_num_threads(int);

namespace {

struct Shape {
    int bf16;
    long m, n, k, lda, ldb, ldc;
    int a_transposed, b_transposed, accumulate;
    bool operator==(const Shape &) const = default;
};

struct Hash {
    size_t operator()(const Shape &s) const {
        size_t h = size_t(s.bf16 + 2 * s.a_transposed + 4 * s.b_transposed + 8 * s.accumulate);
        for (long v : {s.m, s.n, s.k, s.lda, s.ldb, s.ldc}) h = h * 0x9E3779B97F4A7C15ull + size_t(v);
        return h;
    }
};

struct Product {
    dnnl::memory::desc a, b, c;
    dnnl::matmul primitive;
};

// Never destroyed: threads may be inside a product when the program ends.
const dnnl::engine &engine() {
    static const dnnl::engine &one = *new dnnl::engine(dnnl::engine::kind::cpu, 0);
    return one;
}

Product make(const Shape &s) {
    using memory = dnnl::memory;
    const auto type = s.bf16 ? memory::data_type::bf16 : memory::data_type::f32;
    const memory::desc a({s.m, s.k}, type, s.a_transposed ? memory::dims{1, s.lda} : memory::dims{s.lda, 1});
    const memory::desc b({s.k, s.n}, type, s.b_transposed ? memory::dims{1, s.ldb} : memory::dims{s.ldb, 1});
    const memory::desc c({s.m, s.n}, memory::data_type::f32, memory::dims{s.ldc, 1});
    dnnl::primitive_attr attributes;
    if (s.accumulate) {
        dnnl::post_ops sum;
        sum.append_sum(1.0f);
        attributes.set_post_ops(sum);
    }
#if DNNL_VERSION_MAJOR >= 3
    const dnnl::matmul::primitive_desc description(engine(), a, b, c, attributes);
#else
    const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(a, b, c), attributes, engine());
#endif
    return {a, b, c, dnnl::matmul(description)};
}

} // namespace

// c [m, n] = a [m, k] b [k, n] (+ c); a and b in f32 or bf16, c and the sums in f32; rows lie lda, ldb, ldc
// elements apart; a transposed a is [k, m], a transposed b [n, k]. Returns 0, 2 where memory ran out, or 1 after
// writing what is wrong to `problem`.
extern "C" int mem_onednn_matmul(int bf16, long m, long n, long k, const void *a, long lda, int a_transposed,
                                 const void *b, long ldb, int b_transposed, float *c, long ldc, int accumulate,
                                 char *problem, long room) try {
    // A primitive's scratch memory belongs to one thread at a time.
    thread_local std::unordered_map<Shape, Product, Hash> products;
    thread_local dnnl::stream stream(engine());
    omp_set_num_threads(1);
    const Shape shape{bf16, m, n, k, lda, ldb, ldc, a_transposed, b_transposed, accumulate};
    auto found = products.find(shape);
    if (found == products.end()) {
        if (products.size() >= 512) products.clear();
        found = products.emplace(shape, make(shape)).first;
    }
    const Product &p = found->second;
    p.primitive.execute(stream, {{DNNL_ARG_SRC, {p.a, engine(), const_cast<void *>(a)}},
                                 {DNNL_ARG_WEIGHTS, {p.b, engine(), const_cast<void *>(b)}},
                                 {DNNL_ARG_DST, {p.c, engine(), c}}});
    stream.wait();
    return 0;
} catch (const std::bad_alloc &) {
    return 2;
} catch (const std::exception &error) {
    const auto *refusal = dynamic_cast<const dnnl::error *>(&error);
    if (refusal && refusal->status == dnnl_out_of_memory) return 2;
    std::snprintf(problem, size_t(room), "%s", error.what());
    return 1;
}
