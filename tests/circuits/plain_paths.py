"""Path patching by hooks on transformers' own eager attention, one pass after the other.

Nothing of mha_viz runs here. A path is patched in three plain passes: the clean one, whose MLPs and
heads are noted; one in which the sender's z is another one and, for a direct path, everything else
is put back; and a clean one in which the receiver's query, key or value is what it was there.
"""

import copy
from contextlib import contextmanager

import torch
import transformers as tf


class EagerNetwork:
    """A copy of GPT-2, Llama, GPT-NeoX or BERT with transformers' own attention.

    `parts` are of each layer: the norms before attention and before the MLP (none of BERT), the
    projections of queries, keys and values, that of the output, and the MLP. `column` is where a
    projection has one of the three (0 to 2) of a head.
    """

    def __init__(self, network: tf.PreTrainedModel) -> None:
        self.network = copy.deepcopy(network)
        self.network.set_attn_implementation("eager")
        config, kind = self.network.config, network.config.model_type
        self.n_heads, d_model = config.num_attention_heads, config.hidden_size
        self.d_head = width = getattr(config, "head_dim", None) or d_model // self.n_heads
        self.parallel = kind == "gpt_neox"
        self.column = lambda i, head: head * width
        norms = ("input_layernorm", "post_attention_layernorm")
        if kind == "gpt2":
            body = self.network.transformer
            self.layers, self.final, norms = body.h, body.ln_f, ("ln_1", "ln_2")
            inner = [([one.attn.c_attn] * 3, one.attn.c_proj, one.mlp) for one in body.h]
            self.column = lambda i, head: i * d_model + head * width
        elif kind == "llama":
            self.layers, self.final = self.network.model.layers, self.network.model.norm
            for one in self.layers:
                self._unshare_keys(one.self_attn)
            inner = [
                ([at.q_proj, at.k_proj, at.v_proj], at.o_proj, mlp)
                for at, mlp in ((one.self_attn, one.mlp) for one in self.layers)
            ]
        elif kind == "gpt_neox":
            body = self.network.gpt_neox
            self.layers, self.final = body.layers, body.final_layer_norm
            inner = [
                ([one.attention.query_key_value] * 3, one.attention.dense, one.mlp)
                for one in self.layers
            ]
            self.column = lambda i, head: (3 * head + i) * width
        else:
            self.layers, self.final, norms = self.network.bert.encoder.layer, None, ("", "")
            inner = [
                ([at.self.query, at.self.key, at.self.value], at.output.dense, mlp)
                for at, mlp in ((one.attention, one.output.dense) for one in self.layers)
            ]
        both = ([getattr(one, name, None) for name in norms] for one in self.layers)
        self.parts = [(*two, *three) for two, three in zip(both, inner, strict=True)]

    def _unshare_keys(self, attention) -> None:
        """Give each query head a key and a value head of its own, with the same weights."""
        group, attention.num_key_value_groups = attention.num_key_value_groups, 1
        for module in (attention.k_proj, attention.v_proj):
            heads = module.weight.detach().unflatten(0, (-1, self.d_head))
            module.weight = torch.nn.Parameter(heads.repeat_interleave(group, 0).flatten(0, 1))

    @contextmanager
    def hooked(self, hooks):
        handles = [
            module.register_forward_pre_hook(hook) if before else module.register_forward_hook(hook)
            for module, hook, before in hooks
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


class PlainPaths(EagerNetwork):
    """Hooks for every layer, its z, its MLP and what it reads."""

    @property
    def outputs(self):
        return [part[3] for part in self.parts]

    @property
    def mlps(self):
        return [part[4] for part in self.parts]

    def run(self, ids: list[int], *hooks) -> torch.Tensor:
        with torch.no_grad(), self.hooked(hooks):
            return self.network(torch.tensor([ids])).logits[0]

    def noted(self, ids: list[int]):
        """z (layer, position, d_model) before W_O, and the MLPs' outputs."""
        z, mlps = [None] * len(self.outputs), [None] * len(self.mlps)
        hooks = [note(module, z, i, inputs=True) for i, module in enumerate(self.outputs)]
        hooks += [note(module, mlps, i) for i, module in enumerate(self.mlps)]
        self.run(ids, *hooks)
        return z, mlps

    def effect_logits(self, ids, z_of_sender, sender, receiver, direct):
        """Logits (position, d_vocab) with the path patched."""
        if receiver == "logits":
            return self.run(ids, *self._sending(ids, z_of_sender, sender, direct))
        return self.run(ids, self._reading(ids, z_of_sender, sender, receiver, direct))

    def estimate(self, ids, z_of_sender, sender, receiver, direct, number):
        """The gradient of number(logits) by the receiver's z, times the exact change of that z."""
        if receiver == "logits":
            return self._estimate_at_logits(ids, z_of_sender, sender, direct, number)
        at, reader, _ = receiver
        columns = slice(reader * self.d_head, (reader + 1) * self.d_head)
        module, heard = self.outputs[at], [None]
        clean = self.noted(ids)[0][at]
        reading = self._reading(ids, z_of_sender, sender, receiver, direct)
        self.run(ids, reading, note(module, heard, 0, inputs=True))
        leaf = clean.clone().requires_grad_()
        with torch.enable_grad(), self.hooked([put(module, leaf, inputs=True)]):
            (gradient,) = torch.autograd.grad(
                number(self.network(torch.tensor([ids])).logits[0]), leaf
            )
        return float(((heard[0] - clean) * gradient)[..., columns].sum())

    def _estimate_at_logits(self, ids, z_of_sender, sender, direct, number):
        """The gradient of number(logits) by the sender's z, times the change of that z."""
        layer, head = sender
        columns = slice(head * self.d_head, (head + 1) * self.d_head)
        leaf = self.noted(ids)[0][layer][..., columns].clone().requires_grad_()
        with torch.enable_grad(), self.hooked(self._sending(ids, leaf, sender, direct)):
            value = number(self.network(torch.tensor([ids])).logits[0])
            (gradient,) = torch.autograd.grad(value, leaf)
        return float(((z_of_sender - leaf.detach()) * gradient).sum())

    def _sending(self, ids, z_of_sender, sender, direct):
        """Hooks that give the sender another z; all else is put back for a direct path."""
        layer, head = sender
        columns = slice(head * self.d_head, (head + 1) * self.d_head)
        z, mlps = self.noted(ids)
        hooks = []
        if direct:
            hooks += [put(m, z[i], inputs=True) for i, m in enumerate(self.outputs)]
            hooks += [put(m, mlps[i]) for i, m in enumerate(self.mlps)]
        return [*hooks, put(self.outputs[layer], z_of_sender, columns, inputs=True)]

    def _reading(self, ids, z_of_sender, sender, receiver, direct):
        """A hook that gives the receiver what it would read of that sender."""
        at, reader, name = receiver
        which = ("query", "key", "value").index(name)
        module, heard = self.parts[at][2][which], [None]
        hooks = self._sending(ids, z_of_sender, sender, direct)
        self.run(ids, *hooks, note(module, heard, 0))
        start = self.column(which, reader)
        read = slice(start, start + self.d_head)
        return put(module, heard[0][..., read], read)


def note(module, into, index, inputs=False):
    def hook(_module, arguments, output=None):
        into[index] = (arguments[0] if inputs else output).clone()

    return module, hook, inputs


def put(module, tensor, columns=slice(None), inputs=False):
    def changed(whole):
        whole = whole.clone()
        whole[..., columns] = tensor
        return whole

    if inputs:
        return module, lambda _module, arguments: (changed(arguments[0]), *arguments[1:]), True
    return module, lambda _module, arguments, output: changed(output), False
