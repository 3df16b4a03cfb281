"""Models of transformers and torchvision with random weights, for TestModelsAreThoseOfPyTorch.

``models.py write FOLDER`` makes a folder for each model, with its files and oracle.safetensors, which
has an input and the logits of it. ``models.py read FOLDER`` loads what was exported into each folder,
and writes the logits of the same input to back.safetensors.
"""
import json
import os
import sys

import torch
import torchvision
import transformers
from safetensors.torch import load_file, save_file

VOCABULARY = 53


def randomized(model, seed):
    """The model, with no parameter or running statistic at a round value, in evaluation mode."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in model.state_dict().items():
            if name.endswith("running_var"):
                value.uniform_(3, 6, generator=generator)
            elif value.is_floating_point():
                scale = 0.3 / max(1, value[0].numel() / 32 if value.ndim > 1 else 1) ** 0.5
                value.add_(torch.randn(value.shape, generator=generator) * scale)
    return model.eval()


def oracle(folder, model, inputs, logits):
    os.makedirs(folder, exist_ok=True)
    with torch.no_grad():
        out = logits(model.float(), inputs)
    save_file({"inputs": inputs, "logits": out.contiguous()}, f"{folder}/oracle.safetensors")


def hugging_face(model, inputs):
    """Logits of a model of transformers."""
    return model(inputs).logits


def plain(model, inputs):
    """Logits of a model of torchvision."""
    return model(inputs)


def tokens():
    return torch.randint(VOCABULARY, (2, 11), generator=torch.Generator().manual_seed(3))


def images(size):
    return torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(4))


def gpt2(**changes):
    config = transformers.GPT2Config(n_layer=2, n_head=4, n_embd=32, n_positions=16, vocab_size=VOCABULARY,
                                     bos_token_id=0, eos_token_id=0, **changes)
    return randomized(transformers.GPT2LMHeadModel(config), 1)


def llama(**changes):
    config = transformers.LlamaConfig(num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, hidden_size=32,
                                      intermediate_size=88, vocab_size=VOCABULARY, max_position_embeddings=64, **changes)
    return randomized(transformers.LlamaForCausalLM(config), 2)


def write_gpt2(at):
    model = gpt2()
    oracle(f"{at}/gpt2", model, tokens(), hugging_face)
    model.save_pretrained(f"{at}/gpt2")
    oracle(f"{at}/gpt2-trunk", model, tokens(), hugging_face)
    model.transformer.save_pretrained(f"{at}/gpt2-trunk")
    oracle(f"{at}/gpt2-sharded", model, tokens(), hugging_face)
    model.save_pretrained(f"{at}/gpt2-sharded", max_shard_size="40KB")

    # nanoGPT's layout behind torch.compile's prefix: what is Conv1D's is the other way round.
    oracle(f"{at}/gpt2-nanogpt", model, tokens(), hugging_face)
    nano = {}
    for name, value in model.state_dict().items():
        conv = name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight"))
        nano["_orig_mod." + name] = (value.T if conv else value).clone().contiguous()
    save_file(nano, f"{at}/gpt2-nanogpt/model.safetensors")
    model.config.save_pretrained(f"{at}/gpt2-nanogpt")

    model = gpt2(activation_function="gelu", layer_norm_epsilon=1e-3).bfloat16()
    model.save_pretrained(f"{at}/gpt2-bfloat16")
    oracle(f"{at}/gpt2-bfloat16", model, tokens(), hugging_face)


def metas(model):
    """The state dict of a Llama as Meta's files have it."""
    config = model.config
    head = config.hidden_size // config.num_attention_heads

    def interleaved(w):
        # Hugging Face's converter goes the other way.
        return w.view(w.shape[0] // head, 2, head // 2, w.shape[1]).transpose(1, 2).reshape(w.shape)

    own = model.state_dict()
    out = {"tok_embeddings.weight": own["model.embed_tokens.weight"], "norm.weight": own["model.norm.weight"],
           "output.weight": own["lm_head.weight"]}
    names = {"attention_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attention.wv": "self_attn.v_proj",
             "attention.wo": "self_attn.o_proj", "feed_forward.w1": "mlp.gate_proj", "feed_forward.w2": "mlp.down_proj",
             "feed_forward.w3": "mlp.up_proj"}
    for i in range(config.num_hidden_layers):
        for there, ours in names.items():
            out[f"layers.{i}.{there}.weight"] = own[f"model.layers.{i}.{ours}.weight"]
        for part in "qk":
            out[f"layers.{i}.attention.w{part}.weight"] = interleaved(own[f"model.layers.{i}.self_attn.{part}_proj.weight"])
    return {name: value.clone().contiguous() for name, value in out.items()}


def write_llama(at):
    model = llama()
    oracle(f"{at}/llama", model, tokens(), hugging_face)
    model.save_pretrained(f"{at}/llama")
    oracle(f"{at}/llama-meta", model, tokens(), hugging_face)
    save_file(metas(model), f"{at}/llama-meta/consolidated.safetensors")
    with open(f"{at}/llama-meta/params.json", "w") as file:
        json.dump({"dim": 32, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "norm_eps": 1e-6}, file)
    model.config.save_pretrained(f"{at}/llama-meta")

    scaling = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 8}
    model = llama(tie_word_embeddings=True, rope_parameters=scaling, head_dim=16)
    oracle(f"{at}/llama-tied", model, tokens(), hugging_face)
    model.save_pretrained(f"{at}/llama-tied", max_shard_size="20KB")


def write_vit(at):
    config = transformers.ViTConfig(num_hidden_layers=2, num_attention_heads=3, hidden_size=24, intermediate_size=96, image_size=12,
                                    patch_size=4, num_labels=5)
    model = randomized(transformers.ViTForImageClassification(config), 5)
    oracle(f"{at}/vit-hf", model, images(12), hugging_face)
    model.save_pretrained(f"{at}/vit-hf")

    model = randomized(torchvision_vit(), 6)
    oracle(f"{at}/vit-torchvision", model, images(12), plain)
    save_file(model.state_dict(), f"{at}/vit-torchvision/model.safetensors")
    oracle(f"{at}/vit-timm", model, images(12), plain)
    timm = {}
    for name, value in model.state_dict().items():
        for there, ours in (("encoder.layers.encoder_layer_", "blocks."), ("ln_1", "norm1"), ("ln_2", "norm2"), ("mlp.0", "mlp.fc1"), ("mlp.3", "mlp.fc2"),
                            ("self_attention.in_proj_", "attn.qkv."), ("self_attention.out_proj", "attn.proj"), ("class_token", "cls_token"),
                            ("encoder.pos_embedding", "pos_embed"), ("conv_proj", "patch_embed.proj"), ("encoder.ln", "norm"), ("heads.head", "head")):
            name = name.replace(there, ours)
        timm[name] = value.clone().contiguous()
    save_file(timm, f"{at}/vit-timm/model.safetensors")


def torchvision_vit():
    return torchvision.models.VisionTransformer(image_size=12, patch_size=4, num_layers=2, num_heads=3, hidden_dim=24, mlp_dim=96, num_classes=5)


CONVOLUTIONAL = {"resnet18": (torchvision.models.resnet18, 64), "resnet50": (torchvision.models.resnet50, 64),
                 "mobilenet_v2": (torchvision.models.mobilenet_v2, 64)}


def write(at):
    write_gpt2(at)
    write_llama(at)
    write_vit(at)
    for name, (make, size) in CONVOLUTIONAL.items():
        model = randomized(make(num_classes=5), 7)
        oracle(f"{at}/{name}", model, images(size), plain)
        save_file(model.state_dict(), f"{at}/{name}/model.safetensors")


def read(at):
    for case in sorted(os.listdir(at)):
        folder, exported = f"{at}/{case}", f"{at}/{case}/exported"
        if os.path.isdir(exported):
            kind = {"gpt2": transformers.GPT2LMHeadModel, "llama": transformers.LlamaForCausalLM, "vit": transformers.ViTForImageClassification}
            model, report = kind[case.split("-")[0]].from_pretrained(exported, output_loading_info=True)
            assert model.dtype == torch.float32, (case, model.dtype)
            for what, names in report.items():
                assert not names, (case, what, names)
            logits = hugging_face
        elif os.path.exists(exported + ".safetensors"):
            make = torchvision_vit if case.startswith("vit") else lambda: CONVOLUTIONAL[case][0](num_classes=5)
            model, logits = make(), plain
            model.load_state_dict(load_file(exported + ".safetensors"))
        else:
            continue
        inputs = load_file(f"{folder}/oracle.safetensors")["inputs"]
        with torch.no_grad():
            save_file({"logits": logits(model.eval(), inputs).contiguous()}, f"{folder}/back.safetensors")


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    {"write": write, "read": read}[sys.argv[1]](sys.argv[2])
