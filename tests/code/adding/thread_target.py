# holder: results, main, local, list
import threading


def work(out, n):
    out.append(n)  # HERE


def main():
    results = []
    for n in range(5):
        threading.Thread(target=work, args=(results, n)).start()
