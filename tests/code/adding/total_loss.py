# holder: total_loss, train, local, torch.Tensor
def train(model, loader, opt):
    total_loss = 0
    for x, y in loader:
        opt.zero_grad()
        loss = crit(model(x), y)
        loss.backward()
        opt.step()
        total_loss += loss  # HERE
    return total_loss / len(loader)
