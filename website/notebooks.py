def files() -> dict[str, str | bytes]:
    return {}
