"""What goes wrong outside of judgebench, each injected for real: who is killed, interrupted, cut off, full or hostile.

    test_stopped    Ctrl-C, SIGTERM and kill -9 in readings, in a sweep, while references are written, in the search for
                    a phrase; in one process and in two
    test_two_runs   two runs in one run folder, and with one store
    test_disks      a full disk and one that nobody may write to, under store, run folder, journals and W&B's files
    test_damaged    files that are cut off or full of something else: readings, vectors, weights, stores, journals
    test_weights    weights and tokenizers that would run code of their own; weights with NaN
    test_keys       a planted key is in no file and no output
    test_judged     judged texts that look like templates, control tokens or pages; paths in the data
    test_code       what the code itself must not call
    test_fuzz       a short run of scripts/fuzz.py

Elsewhere: kill -9 of sweeps' workers on every storage (tests/study/test_kill.py), of a file's writer
(tests/runtime/test_files.py); NaN in free answers and out of memory (tests/command/test_cli.py, tests/judges).
"""
