# holder: cache, tokenize, attribute, dict
def tokenize(text):
    if text not in tokenize.cache:
        tokenize.cache[text] = text.split()  # HERE
    return tokenize.cache[text]


tokenize.cache = {}
