# One loop for all three blocks.
def ewise_chain(sch):
    for name in ["B", "C"]:
        sch.compute_inline(sch.get_block(name, "main"))
