# Computed as if channels were last: a tile is seven pixels by two vectors of output channels, for which the weights are
# packed first. A row of pixels with all channels is then written back transposed.
def schedule(sch):
    block = sch.get_block("conv", "main")
    n, o, h, w, c, r, s = sch.get_loops(block)
    w0, w1 = sch.split(w, [None, 7])
    sch.reorder(n, h, w0, c, r, s, w1, o)
    weights = sch.cache_read(block, 1, "global")
    sch.transform_layout(weights, ("write", 0), lambda o, c, r, s: (c, r, s, o))
    result = sch.cache_write(block, 0, "global")
    sch.reverse_compute_at(result, h)
    sch.transform_layout(block, ("write", 0), lambda n, o, h, w: (n, h, w, o))
