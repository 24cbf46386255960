# Dot products of bytes: B packed so that four terms of a column lie together, tiles of 32 rows by 64 columns.
def matmul_int8(sch):
    block = sch.get_block("C", "main")
    packed = sch.cache_read(block, 1, "global")
    sch.transform_layout(block, ("read", 1), lambda k, j: (j // 64, k // 4, j % 64, k % 4))
    k, j = sch.get_loops(packed)
    k_0, k_1 = sch.split(k, factors=[None, 4])
    j_0, j_1 = sch.split(j, factors=[None, 64])
    sch.reorder(j_0, k_0, j_1, k_1)
    i, j, k = sch.get_loops(block)
    i_0, i_1 = sch.split(i, factors=[None, 32])
    j_0, j_1 = sch.split(j, factors=[None, 64])
    k_0, k_1 = sch.split(k, factors=[None, 4])
    sch.reorder(j_0, i_0, k_0, i_1, j_1, k_1)
