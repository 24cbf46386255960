# Points and their channels become one loop by themselves: there is nothing to add to the program as written.
def blend_u8(sch):
    pass
