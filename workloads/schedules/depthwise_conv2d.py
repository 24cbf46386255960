# Seven rows of results in registers, so that a padded row is read for up to three of them; a channel's padding just before.
# decisions: [[8, 7]]
def depthwise_conv2d(sch):
    pad, conv = sch.get_block("pad", "main"), sch.get_block("dwconv", "main")
    n, c, h, w, r, s = sch.get_loops(conv)
    h0, h1 = sch.split(h, sch.sample_perfect_tile(h, n=2))
    sch.reorder(h0, s, r, h1, w)
    sch.compute_at(pad, c)
    sch.unroll(r)
    sch.unroll(h1)
    sch.vectorize(w)
