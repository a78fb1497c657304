"""Sets of weights, how alike two of them are, and in which processes they live."""
