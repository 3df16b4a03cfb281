"""Lets Optuna and Syne Tune take part in bench/tune --curves, whose protocol curvepeer.go describes.

    python peer_curves.py optuna      rules none, sha, hyperband, median: TPESampler with its pruners
    python peer_curves.py synetune    rules none (random search), asha, bohb, mobster, dyhpo: its schedulers of these names

Libraries have the settings that they have by default; the last step is given where one is asked for. Parameters that
exist under a value of another one are asked for by Optuna where they exist. Syne Tune has no such parameters: it proposes
all, and those that do not exist are left out.
"""

import datetime
import json
import math
import sys
import warnings


class Optuna:
    def __init__(self, start):
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        last = start["last"]
        pruners = {
            "none": optuna.pruners.NopPruner,
            "sha": optuna.pruners.SuccessiveHalvingPruner,
            "hyperband": lambda: optuna.pruners.HyperbandPruner(max_resource=last),
            "median": optuna.pruners.MedianPruner,
        }
        self.optuna, self.space, self.trials = optuna, start["space"], []
        self.study = optuna.create_study(
            direction="maximize",
            sampler=optuna.samplers.TPESampler(seed=start["seed"] % 2**32),
            pruner=pruners[start["rule"]](),
        )

    def ask(self):
        trial, params = self.study.ask(), {}
        for p in self.space:
            if p.get("parent") and params.get(p["parent"]) not in p["parent_values"]:
                continue
            if p["kind"] == "choice":
                params[p["name"]] = trial.suggest_categorical(p["name"], p["values"])
            elif p["kind"] == "int":
                params[p["name"]] = trial.suggest_int(p["name"], int(p["low"]), int(p["high"]), log=p["log"])
            else:
                params[p["name"]] = trial.suggest_float(p["name"], p["low"], p["high"], log=p["log"])
        self.trials.append(trial)
        return {"trial": len(self.trials) - 1, "params": params}

    def report(self, number, step, value, last):
        trial, state = self.trials[number], self.optuna.trial.TrialState
        if value is None:
            trial.report(math.nan, step)
            self.study.tell(trial, state=state.PRUNED)
            return "stop"
        trial.report(value, step)
        if last:
            self.study.tell(trial, value)
            return "continue"
        if trial.should_prune():
            self.study.tell(trial, state=state.PRUNED)
            return "stop"
        return "continue"


class SyneTune:
    def __init__(self, start):
        import logging

        import syne_tune.config_space as cs
        from syne_tune.backend.trial_status import Trial
        from syne_tune.optimizer import baselines

        logging.disable(logging.CRITICAL)
        self.Trial, self.space, self.trials = Trial, start["space"], []
        space = {}
        for p in self.space:
            if p["kind"] == "choice":
                space[p["name"]] = cs.choice(p["values"])
            elif p["kind"] == "int":
                space[p["name"]] = (cs.lograndint if p["log"] else cs.randint)(int(p["low"]), int(p["high"]))
            else:
                space[p["name"]] = (cs.loguniform if p["log"] else cs.uniform)(p["low"], p["high"])
        common = dict(metric="accuracy", mode="max", random_seed=start["seed"] % 2**31)
        rungs = dict(resource_attr="step", max_t=start["last"])
        searching = dict(search_options={"debug_log": False})
        made = {
            "none": lambda: baselines.RandomSearch(space, **common, **searching),
            "asha": lambda: baselines.ASHA(space, **common, **rungs, **searching),
            "bohb": lambda: baselines.BOHB(space, **common, **rungs, **searching),
            "mobster": lambda: baselines.MOBSTER(space, **common, **rungs, **searching),
            "dyhpo": lambda: baselines.DyHPO(space, **common, **rungs, **searching),
        }
        self.scheduler = made[start["rule"]]()

    def ask(self):
        suggestion = self.scheduler.suggest(len(self.trials))
        if suggestion is None:
            return {"done": True}
        if not suggestion.spawn_new_trial_id:
            trial = self.trials[suggestion.checkpoint_trial_id]
            if suggestion.config is not None:
                trial.config.update(suggestion.config)
            return {"trial": trial.trial_id}
        config = suggestion.config
        trial = self.Trial(len(self.trials), config, datetime.datetime.now())
        self.trials.append(trial)
        self.scheduler.on_trial_add(trial)
        params = {}
        for p in self.space:
            if p.get("parent") and params.get(p["parent"]) not in p["parent_values"]:
                continue
            value = config[p["name"]]
            params[p["name"]] = value.item() if hasattr(value, "item") else value
        return {"trial": trial.trial_id, "params": params}

    def report(self, number, step, value, last):
        trial = self.trials[number]
        if value is None:
            self.scheduler.on_trial_error(trial)
            return "stop"
        decision = self.scheduler.on_trial_result(trial, {"accuracy": value, "step": step})
        if last:
            self.scheduler.on_trial_complete(trial, {"accuracy": value, "step": step})
            return "continue"
        if decision == "STOP":
            self.scheduler.on_trial_remove(trial)
        return {"CONTINUE": "continue", "PAUSE": "pause", "STOP": "stop"}[decision]


def main():
    warnings.filterwarnings("ignore")
    search, libraries = None, {"optuna": Optuna, "synetune": SyneTune}
    library = libraries[sys.argv[1]]
    out, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        r = json.loads(line)
        if r["op"] == "start":
            search, answer = library(r), {}
        elif r["op"] == "ask":
            answer = search.ask()
        elif r["op"] == "report":
            answer = {"action": search.report(r["trial"], r["step"], r["value"], r.get("last", False))}
        else:
            answer = {"error": "operation " + r["op"] + " is not known"}
        print(json.dumps(answer), file=out, flush=True)


main()
