"""What is taken for a secret, and what is not: a false alarm spoils a report as surely as a leak spoils trust."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

import pytest

from leakscope import schema
from leakscope.agent import masking
from leakscope.agent.masking import Masker, is_same_command, without_source

ROOT = Path(__file__).parents[2]

# (column, text, what must be gone). Made up, all of them, by the rules of those who give them out.
STRIPE, NOISE = "sk_live_4eC39HqLyjWDarjtT1zdp7dc", "kX9vQ2mZ7pL4wR8tB3nY6cJ1"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
SECRETS = [
    ("cmdline", "python job.py --api-key=zq81hh2 --epochs 3", "zq81hh2"),
    ("cmdline", "python job.py --token Q", " Q"),
    ("cmdline", "python job.py --password 'my pass word'", "my pass"),
    ("cmdline", "python job.py '--password=my pass word'", "pass word"),
    ("cmdline", "python job.py --db postgres://u:tiger@h/db", "tiger"),
    ("cmdline", "python job.py --db postgres://u:ti/ger@h/db", "ger@"),
    ("cmdline", "python job.py redis://:swordfish@h:6379/0", "swordfish"),
    ("cmdline", "env HUB_TOKEN=xyz python job.py", "xyz"),
    ("cmdline", "sh -c 'HUB_TOKEN=xyzzy python job.py --password=hunter2; ls'", "hunter2"),
    ("cmdline", "sh -c 'HUB_TOKEN=xyzzy python job.py'", "xyzzy"),
    ("cmdline", "curl -H 'Authorization: Bearer abcdef12345' https://h/", "abcdef12345"),
    ("cmdline", "curl -H 'X-Api-Key: abcdef12345' https://h/", "abcdef12345"),
    ("cmdline", "curl 'https://api.h.io/v1?x=1&access_token=Qq12345678&y=2'", "Qq12345678"),
    ("cmdline", "curl 'https://a.blob.core.windows.net/c/f?sv=2020&sig=abc%2Fdef%3D'", "abc%2Fdef"),
    ("cmdline", "git clone https://x-access-token:ghs_abcdefABCDEF12345@github.com/a/b", "ghs_abc"),
    ("cmdline", "curl https://hooks.slack.com/services/T00000000/B00000000/XqZ9kW3vT7rLpM2nB5dY8fGh", "XqZ9k"),
    ("cmdline", "python a.py --wandb-key 0123456789abcdef0123456789abcdef01234567", "0123456789abcdef"),
    ("cmdline", "python a.py hf_AbCdEfGhIjKlMnOpQrStUvWxYz0123", "hf_AbC"),
    ("cmdline", "python a.py --auth user:pa55word", "pa55"),
    ("cmdline", "python a.py AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "wJalr"),
    ("cmdline", "python a.py wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "wJalr"),
    ("cmdline", f"python a.py {NOISE}", NOISE),
    ("cmdline", """python a.py --credentials '{"private_key_id": "0123456789abcdef0123456789abcdef"}'""", "0123"),
    ("cmdline", "sh -c 'DB_PASS=tr0ub4dor python job.py'", "tr0ub4dor"),
    ("cmdline", "python job.py DB_PASS=tr0ub4dor", "tr0ub4dor"),
    ("cmdline", "sh -c 'curl -s -u me:Passw0rd99 https://h/'", "Passw0rd99"),
    ("cmdline", "curl -u me:Passw0rd99 https://h/", "Passw0rd99"),
    ("cmdline", "curl --user=me:Passw0rd99 https://h/", "Passw0rd99"),
    ("cmdline", "sh -c 'mysqldump -h db -pGeheim77 shop > out'", "Geheim77"),
    ("cmdline", "mysql -u root -pGeheim77 shop", "Geheim77"),
    ("cmdline", "sshpass -p Geheim77 ssh me@h", "Geheim77"),
    ("last_words", "OSError: login failed for password 'hunter2hunter2'", "hunter2"),
    ("last_words", "password for bob is Tr1cky!pass", "Tr1cky"),
    ("last_words", "smtp_pass: hunter2", "hunter2"),
    ("last_words", "ValueError: bad password: hunter2", "hunter2"),
    ("last_words", "RuntimeError: no login with {'user': 'bob', 'password': 's3cr3t!x'}", "s3cr3t"),
    ("last_words", '{"api_key": "abc123def"}', "abc123def"),
    ("last_words", "OperationalError: postgresql+psycopg2://bob:tiger@db:5432/x failed", "tiger"),
    ("last_words", f"KeyError: '{STRIPE}'", STRIPE),
    ("last_words", f"ValueError: Invalid token {JWT}", "eyJ"),
    ("last_words", "-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----", "MIIabc"),
    ("last_words", "401 for url: https://api.x.com/?key=abcd1234efgh", "abcd1234"),
    ("last_words", "Authorization: Basic dXNlcjpwYXNz", "dXNl"),
    ("last_words", "export DB_PASSWORD=correcthorse", "correcthorse"),
    ("last_words", "    connect(host='h', password='tiger7')", "tiger7"),
    ("last_words", "AccountKey=abcDEF123+/x==;EndpointSuffix=core", "abcDEF"),
    ("last_words", "Server=h;User=sa;Pwd=Tiger7;", "Tiger7"),
    ("last_words", "CalledProcessError: ['python', 'x.py', '--token', 'abcdef']", "abcdef"),
    ("last_words", "login with AKIAIOSFODNN7EXAMPLE failed", "AKIA"),
    ("text", f"run of {NOISE}", NOISE),
    ("phase", f"with {STRIPE}", STRIPE),
    ("edge_name", f"['{STRIPE}']", STRIPE),
    ("edge_name", f"['{NOISE}']", NOISE),
    ("chain", f"c.sessions['{NOISE}'].x", NOISE),
    ("chain", "c.tokens['deadbeefdeadbeefdeadbeefdeadbeef'].x", "deadbeef"),
    ("chain", f"list <- dict['{STRIPE}']", STRIPE),
    ("source_text", f'API="{STRIPE}"\npassword = "tiger"\n', "tiger"),
    ("source_text", 'd = {"password": "tiger"}', "tiger"),
    ("source_text", "URL = 'postgres://a:tiger@h'", "tiger"),
    ("source_text", f"KEY = '{NOISE}'", NOISE),
    ("comm", "sk_live_4eC39H", "4eC"),
    ("map_path", f"/data/{STRIPE}", "4eC"),
    ("a_column_of_a_later_version", f"x {STRIPE}", "4eC"),
]

COMMANDS = """
python train.py --max-tokens 4096 --lr 1e-4
python -m torch.distributed.run --nproc_per_node=8 --rdzv_id=12345 --rdzv_endpoint=node1:29400 train.py
python train.py --model bert-base-uncased-finetuned-sst-2-english --run-name resnet50_imagenet_bs256_lr0p1_seed42
python train.py --pad-token '<pad>' --eos-token '</s>' --tokenizer meta-llama/Llama-2-7b-hf
python train.py /home/u/.cache/hub/models--bert/snapshots/86b5e0934494bd15c9632b12f734a8a67f723594/config.json
git checkout 86b5e0934494bd15c9632b12f734a8a67f723594
python a.py --id 123e4567-e89b-12d3-a456-426614174000 --out runs/123e4567-e89b-12d3-a456-426614174000.pt
python -c 'from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5, pipe_handle=7)' --multiprocessing-fork
python torch/_inductor/compile_worker/__main__.py --pickler=torch._inductor.SubprocPickler --workers=16 --torch-key=kX9
python train.py trainer.optimizer=adamw trainer.max_epochs=3 data.path=/data/imagenet-1k/train-00001-of-01024.parquet
python train.py --token-file /run/secrets/hf_token --password-file pw.txt --token /run/secrets/hf_token
python train.py --no-auth --use-auth-token
kubectl logs trainer-7d9f8b6c5d-x2x9z -n ml
python train.py --config Qwen2.5-VL-72B-Instruct-GPTQ-Int4 --date 2024-11-21T10-00-00
python -m pytest tests/test_tokenizer.py::TestTokens::test_secret_names -k 'token and not secret'
python train.py --sort-key=length --group_key user_id --key id
java -Xmx4g -XX:+UseG1GC -cp /opt/spark/jars/spark-core_2.12-3.5.0.jar org.apache.spark.deploy.SparkSubmit
python /tmp/torchinductor_root/4q/c4qjd7uhqsvq2ymmlvblzjzrwvvtpyr5qwgpcczsydcyfzw5pdzq.py
python c4qjd7uhqsvq2ymmlvblzjzrwvvtpyr5qwgpcczsydcyfzw5pdzq.py
python train.py --wandb-project my-project --entity someTeamName2024WithALongName
python eval.py --n-tokens 1000000 --tokens-per-sample 512 --token-dim 768
python train.py 'http://localhost:8080/a?email=x@y.z' s3://bucket/key/name.parquet hdfs://namenode:8020/user/b@corp/data
sh -c 'cd $PWD && python train.py'
docker run -u 1000:1000 curlimages/curl -sS https://h/ -p 80:8080
mysql -u root -p shop
torchrun --nproc-per-node 2 train.py --forward-pass=2 n_pass=3 two_pass=true MODE_PASS=1 first-pass=greedy12
env PWD=/home/x OLDPWD=/tmp PYTHONHASHSEED=0 CUBLAS_WORKSPACE_CONFIG=:4096:8 python x.py
""".strip().splitlines()

WORDS = """
Traceback (most recent call last):
  File "/home/u/proj/train.py", line 88, in Trainer.step
    loss = self.model(batch["tokens"], token_type_ids=batch["token_type_ids"])
  File "/opt/lib/python3.11/site-packages/transformers/gpt2.py", line 12, in GPT2LMHeadModelV2WithQKNormX3D.forward
    hidden = self.transformer(input_ids=input_ids, token=self.token, key=key, password=get_password())
  File "/x.py", line 1, in f
    def connect(user, password=None, token: str = None, secret: bytes = b""):
RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 15.78 GiB total capacity)
KeyError: 'token'
SyntaxError: invalid token: unexpected character
Fatal Python error: none_dealloc: deallocating None
Current thread 0x00007f8a3c2b1d40 (most recent call first):
terminate called after throwing an instance of 'std::bad_alloc'
num_tokens: 10000, max_tokens=2048, pad_token_id: 50256
ImportError: /a/libtorch_cuda.so: undefined symbol: _ZN2at6native12_GLOBAL__N_121CatArrayBatchedCopyE
NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1333, unhandled cuda error
TypeError: unsupported operand type(s) for +: 'int' and 'CrossEntropyLossWithLabelSmoothing2d'
ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_nn
forward_pass: 12.5 ms, backward_pass=31.2 ms, 3 passed, PASS: tests/test_a.py::test_1
the password is wrong; no password for user 'bob' was given; password is required
AssertionError: expected key: 'user_id', got key: 'users'
sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
""".splitlines()

HARMLESS = [
    *[("cmdline", line) for line in COMMANDS],
    *[("last_words", line) for line in WORDS],
    ("text", "task_memcg=/kubepods.slice/cri-containerd-9f86d081884c7d659a2feaa0c55ad015a3bf4f1b.scope,task=python"),
    ("edge_name", "['input_ids_attention_mask_token_type_ids']"),
    ("chain", "main() batch.tokens['input_ids'][*]"),
    ("chain", "a.cache['GPT2LMHeadModelV2WithQKNorm'].layers['encoder_layer_12_self_attention_output']"),
    ("type_name", "transformers.models.gpt2.GPT2LMHeadModelV2WithQKNormX3D"),
    ("owner_file", "/tmp/torchinductor_root/4q/c4qjd7uhqsvq2ymmlvblzjzrwvvtpyr5qwgpcczsydcyfzw5pdzq.py"),
    ("recompile_reason", "0/0: tensor 'L['x']' size mismatch at index 0. expected 4, actual 5"),
    ("recompile_reason", "___check_type_id(L['token'], 94012345678)"),
    ("fingerprint", "AACAPwAAAEAAAEBAAACAQAAAoEAAAMBAAADgQAAAAEEAABBBAAAgQQ=="),
    ("gpu_uuid", "GPU-8f6a1c2e-7d3b-4e5f-9a0b-1c2d3e4f5a6b"),
    ("source_text", "digits = '0123456789abcdefghijklmnopqrstuvwxyz'\nBASE58 = '123456789ABCDEFGHJKLMNPQRSTUVWXYZ'\n"),
    ("source_text", "token = next(tokens)\npassword = getpass()\nkey = 'user_id_with_long_name'\n"),
]  # fmt: skip


def cleaned(column: str, text: str, masker: Masker | None = None) -> str:
    return (masker or Masker()).row("any", {column: text})[column]


@pytest.mark.parametrize(("column", "text", "secret"), SECRETS)
def test_a_secret_is_masked(column, text, secret):
    shown = cleaned(column, text)
    assert secret not in shown and "masked_" in shown


@pytest.mark.parametrize(("column", "text"), HARMLESS)
def test_an_ordinary_text_stays_as_it_is(column, text):
    assert cleaned(column, text) == text


def test_no_source_of_ours_is_taken_for_a_secret():
    masker = Masker()
    for file in [*(ROOT / "leakscope").rglob("*.py"), *(ROOT / "fixtures").rglob("*.py")]:
        text = file.read_text(encoding="utf-8")
        assert masker.source(text) == text or file.name == "masking.py", file  # which has examples


def test_equal_secrets_are_equal_within_one_recording_and_in_no_other():
    salt = masking.new_salt()
    here = cleaned("cmdline", f"a --token {NOISE}", Masker(salt)).split()[-1]
    assert here in cleaned("last_words", f"bad token={NOISE}", Masker(salt))
    assert here not in cleaned("last_words", f"bad token={NOISE}", Masker(masking.new_salt()))
    assert here != cleaned("cmdline", f"a --token {NOISE}x", Masker(salt)).split()[-1]


def test_what_is_masked_once_is_not_masked_again():
    masker = Masker()
    for column, text, _ in SECRETS:
        once = cleaned(column, text, masker)
        assert cleaned(column, once, masker) == once


def test_a_source_stays_a_program():
    text = (
        f'"""Doc."""\nkeys = ["{NOISE}"]\nURL = "https://u:tiger@h"  # {STRIPE}\ndef f(password="tiger"):\n    pass\n'
    )
    shown = cleaned("source_text", text)
    compile(shown, "x.py", "exec")
    assert shown.count("\n") == text.count("\n") and not {NOISE, STRIPE, "tiger"} & set(shown.split('"'))


def test_a_secret_in_a_value_of_a_wrong_type_is_masked():
    row = Masker().row("any", {"text": [f"x {STRIPE}", {"a": f"y {STRIPE}"}], "note": 5, "value": None})
    assert STRIPE not in repr(row) and row["note"] == 5 and row["value"] is None


def test_the_columns_it_treats_apart_are_those_of_the_schema():
    carried = {kind: {c.name for c in schema.columns().values() if c.carries == kind} for kind in schema.CARRIES}
    assert carried["message"] | carried["note"] | carried["process"] == masking.FREE_TEXT
    assert carried["way"] == masking.WAYS
    assert carried["command"] == {masking.COMMAND_LINE}
    assert carried["source"] == {masking.SOURCE_TEXT}


def test_a_row_costs_microseconds():
    """Ten times what it takes on a quiet machine (2 and 6 us): the best of some tries."""
    masker = Masker()

    def row(i):
        way = f"main() trainer.history[*] {i}"
        names = {"edge_name": "history", "owner": "Trainer", "owner_file": "/home/u/train.py", "type_name": "list"}
        return {"weight_set": way, "chain": way[:-2], "node": i, "retained_bytes": i, **names}

    def cost_us(rows):
        began_s = time.perf_counter()
        for one in rows:
            masker.row("heap_nodes", one)
        return (time.perf_counter() - began_s) / len(rows) * 1e6

    assert min(cost_us([row(i) for i in range(n, n + 500)]) for n in range(0, 5000, 500)) < 60
    assert min(cost_us([row(1)] * 500) for _ in range(10)) < 20


def test_a_command_is_known_again_by_what_is_not_masked():
    words = ["python", "train.py", "--token", "abc", "--db=postgres://u:tiger@h"]
    written_down = Masker().command(words)
    assert written_down != words and is_same_command(written_down, words)
    assert not is_same_command(written_down, [*words[:1], "other.py", *words[2:]])
    assert not is_same_command(written_down, words[:-1])
    assert not is_same_command("python", words)


TRACEBACK = """\
Traceback (most recent call last):
  File "/home/u/train.py", line 88, in step
    loss = formula(batch)
           ^^^^^^^^^^^^^^
  File "<string>", line 1
    loss formula
         ^
  + Exception Group Traceback (most recent call last):
  |   File "/home/u/train.py", line 9, in <module>
  |     formula()
  | ExceptionGroup: two (2 sub-exceptions)
/home/u/train.py:12: UserWarning: careful
  warnings.warn(formula)
ValueError: bad batch
"""


def test_tracebacks_without_source_keep_all_else():
    shown = without_source(TRACEBACK)
    assert "formula" not in shown and "^" not in shown
    kept = [line for line in TRACEBACK.splitlines() if "formula" not in line and "^" not in line]
    assert shown.splitlines() == kept


def test_text_is_masked_as_a_whole_where_re_would_be_imported_after_an_interrupt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Python would forget that it is an interrupt that ends it."""
    monkeypatch.setattr(masking, "_RUN", masking._Pattern("[a-z_]{16,}"))
    monkeypatch.setattr(sys, "last_value", KeyboardInterrupt(), raising=False)
    monkeypatch.delitem(sys.modules, "re")
    assert cleaned("text", "only short words, however many") == "only short words, however many"
    assert re.fullmatch("masked_[0-9a-f]{6}", cleaned("text", "and_a_long_one_here"))
    assert "re" not in sys.modules
