import busy


def test_covered():
    assert busy.spin() and busy.adds_up()
