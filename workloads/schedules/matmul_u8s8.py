# Dot products of bytes: tiles of 6 rows by 64 columns, four terms at a time, over all of k.
def matmul_u8s8(sch):
    block = sch.get_block("C", "main")
    i, j, k = sch.get_loops(block)
    i_0, i_1 = sch.split(i, factors=[None, 8])
    j_0, j_1 = sch.split(j, factors=[None, 32])
    k_0, k_1 = sch.split(k, factors=[None, 4])
    sch.reorder(j_0, i_0, k_0, i_1, j_1, k_1)
    sch.unroll(i_1)
