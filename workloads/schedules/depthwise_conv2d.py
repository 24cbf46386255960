# Padding is computed in place, as masks of what is loaded. Four rows of three vectors of results stay in registers, so that a row
# of the picture is read for up to three of them.
# decisions: [[14, 4]]
def depthwise_conv2d(sch):
    pad, conv = sch.get_block("pad", "main"), sch.get_block("dwconv", "main")
    n, c, h, w, r, s = sch.get_loops(conv)
    h0, h1 = sch.split(h, sch.sample_perfect_tile(h, n=2))
    w0, w1 = sch.split(w, [None, 48])
    sch.reorder(h0, w0, s, r, h1, w1)
    sch.compute_inline(pad)
    sch.unroll(s)
    sch.unroll(r)
    sch.unroll(h1)
    sch.vectorize(w1)
