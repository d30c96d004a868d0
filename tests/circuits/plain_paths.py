"""Path patching by hooks on transformers' own eager attention, one pass after the other.

Nothing of mha_viz runs here. A path is patched in three plain passes: the clean one, whose MLPs and
heads are noted; one in which the sender's z is another one and, for a direct path, everything else
is put back; and a clean one in which the receiver's query, key or value is what it was there.
"""

import copy
from contextlib import contextmanager

import torch
import transformers as tf


class PlainPaths:
    """GPT-2, Llama, GPT-NeoX or BERT; hooks for every layer, its z, its MLP and what it reads."""

    def __init__(self, network: tf.PreTrainedModel) -> None:
        self.network = copy.deepcopy(network)
        self.network.set_attn_implementation("eager")
        config = self.network.config
        self.n_heads, d_model = config.num_attention_heads, config.hidden_size
        self.d_head = getattr(config, "head_dim", None) or d_model // self.n_heads
        if config.model_type == "gpt2":
            layers = self.network.transformer.h
            self.outputs = [layer.attn.c_proj for layer in layers]
            self.mlps = [layer.mlp for layer in layers]
            self.readers = [dict.fromkeys("qkv", layer.attn.c_attn) for layer in layers]
            self.offset = {"q": 0, "k": d_model, "v": 2 * d_model}
        elif config.model_type == "llama":
            layers = self.network.model.layers
            self.outputs = [layer.self_attn.o_proj for layer in layers]
            self.mlps = [layer.mlp for layer in layers]
            self.readers = [{"q": layer.self_attn.q_proj} for layer in layers]  # keys are shared
            self.offset = {"q": 0}
        elif config.model_type == "gpt_neox":
            layers = self.network.gpt_neox.layers
            self.outputs = [layer.attention.dense for layer in layers]
            self.mlps = [layer.mlp for layer in layers]
        else:
            layers = self.network.bert.encoder.layer
            self.outputs = [layer.attention.output.dense for layer in layers]
            self.mlps = [layer.output.dense for layer in layers]
            own = [layer.attention.self for layer in layers]
            self.readers = [{"q": one.query, "k": one.key, "v": one.value} for one in own]
            self.offset = dict.fromkeys("qkv", 0)
        self.layers = layers

    def run(self, ids: list[int], *hooks) -> torch.Tensor:
        with torch.no_grad(), self._hooked(hooks):
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
        with torch.enable_grad(), self._hooked([put(module, leaf, inputs=True)]):
            (gradient,) = torch.autograd.grad(
                number(self.network(torch.tensor([ids])).logits[0]), leaf
            )
        return float(((heard[0] - clean) * gradient)[..., columns].sum())

    def _estimate_at_logits(self, ids, z_of_sender, sender, direct, number):
        """The gradient of number(logits) by the sender's z, times the change of that z."""
        layer, head = sender
        columns = slice(head * self.d_head, (head + 1) * self.d_head)
        leaf = self.noted(ids)[0][layer][..., columns].clone().requires_grad_()
        with torch.enable_grad(), self._hooked(self._sending(ids, leaf, sender, direct)):
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
        module = self.readers[at][name[0]]
        heard = [None]
        hooks = self._sending(ids, z_of_sender, sender, direct)
        self.run(ids, *hooks, note(module, heard, 0))
        start = self.offset[name[0]] + reader * self.d_head
        read = slice(start, start + self.d_head)
        return put(module, heard[0][..., read], read)

    @contextmanager
    def _hooked(self, hooks):
        handles = [
            module.register_forward_pre_hook(hook) if inputs else module.register_forward_hook(hook)
            for module, hook, inputs in hooks
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


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
