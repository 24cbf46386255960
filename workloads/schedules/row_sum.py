# Rows are summed in four vectors each, at the bandwidth of the cache that the matrix is in.
# There is nothing to add to the program as written.
def row_sum(sch):
    pass
