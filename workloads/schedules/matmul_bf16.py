# Tiles of 8 rows by 32 columns; the sums of a tile stay in registers over all of k.
def matmul_bf16(sch):
    block = sch.get_block("C", "main")
    i, j, k = sch.get_loops(block)
    i_0, i_1 = sch.split(i, factors=[None, 8])
    j_0, j_1 = sch.split(j, factors=[None, 32])
    sch.reorder(j_0, i_0, k, i_1, j_1)
