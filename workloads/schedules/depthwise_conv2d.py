# Seven rows of a vector of results in registers, so that a padded row is read for up to three of them; a channel's padding
# just before.
# decisions: [[8, 7]]
def depthwise_conv2d(sch):
    pad, conv = sch.get_block("pad", "main"), sch.get_block("dwconv", "main")
    n, c, h, w, r, s = sch.get_loops(conv)
    h0, h1 = sch.split(h, sch.sample_perfect_tile(h, n=2))
    w0, w1 = sch.split(w, [None, 16])
    sch.reorder(h0, w0, s, r, h1, w1)
    sch.compute_at(pad, c)
    sch.unroll(r)
    sch.unroll(h1)
    sch.vectorize(w1)
