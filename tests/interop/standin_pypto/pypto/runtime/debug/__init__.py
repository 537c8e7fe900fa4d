def invalidate_binary_cache(work_dir):
    print(f"invalidated {work_dir.name}")
    return 1
