# A row at a time, from the first block to the last, while it is in the nearest cache.
def softmax(sch):
    row, _ = sch.get_loops(sch.get_block("norm", "main"))
    for name in ["expsum", "exp", "maxelem"]:
        sch.compute_at(sch.get_block(name, "main"), row)
