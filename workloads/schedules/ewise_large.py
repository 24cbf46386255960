# One loop for all eight blocks: each element is read once and written once.
def ewise_large(sch):
    for name in ["scale", "shift", "lower", "upper", "sixth", "swish", "sqrt"]:
        sch.compute_inline(sch.get_block(name, "main"))
