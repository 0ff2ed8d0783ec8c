"""For tools/rank_published.py: runs the program for questions, several at once, and keeps every answer in a file.

An answer is found again by the hash of the program, the command, and the texts of its files, so that a rerun is free.
"""
import hashlib
import json
import os
import resource
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

from ranking.questions import answer_of, command_of


def digest(*texts):
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


class Cache:
    """Answers by key, in a file of one JSON object a line."""

    def __init__(self, path):
        self.path, self.lock, self.answers = path, threading.Lock(), {}
        if path and os.path.exists(path):
            with open(path) as file:
                self.answers = {line["key"]: line["answer"] for line in map(json.loads, file)}

    def keep(self, key, answer):
        with self.lock:
            self.answers[key] = answer
            if self.path:
                with open(self.path, "a") as file:
                    file.write(json.dumps({"key": key, "answer": answer}) + "\n")


class Runner:
    """Asks a program. `seconds` is the CPU time that one run may take; `folder` is for the files of its commands."""

    def __init__(self, program, cache, seconds, folder):
        self.program, self.cache, self.seconds, self.folder = program, cache, seconds, folder
        with open(program.path, "rb") as file:
            self.hash = hashlib.sha256(file.read()).hexdigest()

    def file_of(self, text, name):
        """A file with this text, in a folder of its own."""
        path = os.path.join(self.folder, digest(text)[:16], name)
        if not os.path.exists(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path + str(threading.get_ident()), "w") as file:
                file.write(text)
            os.replace(file.name, path)
        return path

    def run(self, question, more=()):
        """The answer to a question: step_s and memory, or `why` there is none."""
        words = command_of(question, self.program, question.model or "config.json", "cluster.yaml", more)[1:]
        key = digest(self.hash, str(self.seconds), *words, question.config, question.cluster)
        if key in self.cache.answers:
            return self.cache.answers[key]
        model = self.file_of(question.config, "config.json") if question.config else question.model
        cluster = self.file_of(question.cluster, "cluster.yaml")
        answer = self.measured(command_of(question, self.program, model, cluster, more))
        self.cache.keep(key, answer)
        return answer

    def measured(self, command):
        limit = (lambda: resource.setrlimit(resource.RLIMIT_CPU, (self.seconds, self.seconds + 1)))
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, preexec_fn=limit,
                                  timeout=30 * self.seconds)
        except subprocess.TimeoutExpired:
            return {"why": "time out"}
        if done.returncode == 0:
            return answer_of(done.stdout)
        if done.returncode < 0:
            return {"why": "time out"}
        lines = [line for line in done.stderr.strip().split("\n") if line.startswith("partita")]
        return {"why": "refused: " + (lines or ["no message"])[0]}

    def ask(self, question):
        """Step, memory, and whether it fits. If it may fit without buckets of gradients, that is asked too, as `plan` does."""
        answer = dict(self.run(question))
        if "why" in answer:
            return answer
        if answer["memory"] > question.memory_bytes >= answer["memory"] - answer["buffers"]:
            other = self.run(question, ("--bucket", "0"))
            if other.get("memory", float("inf")) <= question.memory_bytes:
                answer = dict(other)
        return {**answer, "fits": answer["memory"] <= question.memory_bytes}

    def all(self, questions, jobs, progress=lambda done: None):
        """The answers, in the order of the questions."""
        answers = []
        with ThreadPoolExecutor(jobs) as pool:
            for answer in pool.map(self.ask, questions):
                answers.append(answer)
                progress(len(answers))
        return answers
