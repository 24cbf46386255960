# Every element is read once and written once.
# There is nothing to add to the program as written.
def relu(sch):
    pass
