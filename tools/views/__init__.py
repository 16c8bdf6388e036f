"""What people look at.

    commands/    `berth explain`, `whatif`, `debug`, `why`, `doctor`, `shadow` and `top`
    page/        the page in a browser
    top/         `berth top`, on a terminal

The page and `berth top` are two faces of one feed, which tools/answers/feed makes.
"""
