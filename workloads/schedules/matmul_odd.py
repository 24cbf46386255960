# No extent has a good divisor: rows are split unevenly, columns are one row of vectors that ends under a mask.
def schedule(sch):
    block = sch.get_block("C", "main")
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, [None, 8])
    sch.reorder(i0, k, i1, j)
