# holder: hidden, train, local, torch.Tensor
def train(rnn, xs):
    hidden = None
    for x in xs:
        out, hidden = rnn(x, hidden)  # HERE
        out.mean().backward()
