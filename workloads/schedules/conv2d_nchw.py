# Pixels of a row are contiguous: a tile is four output channels by a whole row, whose last half vector is masked.
# decisions: [[16, 4]]
def schedule(sch):
    block = sch.get_block("conv", "main")
    n, o, h, w, c, r, s = sch.get_loops(block)
    o0, o1 = sch.split(o, sch.sample_perfect_tile(o, n=2, max_innermost_factor=8))
    sch.reorder(n, h, o0, c, r, s, o1, w)
