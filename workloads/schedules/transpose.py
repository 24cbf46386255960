# Tiles that are transposed in registers, 16 vectors of 16 lanes at a time; rows of four cache lines each are written.
# decisions: [[32, 16], [16, 64]]
def transpose(sch):
    block = sch.get_block("transpose", "main")
    i, j = sch.get_loops(block)
    i0, i1 = sch.split(i, sch.sample_perfect_tile(i, n=2, max_innermost_factor=64))
    j0, j1 = sch.split(j, sch.sample_perfect_tile(j, n=2, max_innermost_factor=64))
    sch.reorder(i0, j0, i1, j1)
