# holder: session, main, local, requests.sessions.Session
import requests


def main():
    session = requests.Session()
    while True:
        session.cookies.set_cookie(cookie())  # HERE
