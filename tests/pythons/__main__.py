from .environments import main

main()
