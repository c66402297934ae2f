def check(judge, name): return 0
