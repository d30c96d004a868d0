"""Lab 6's page: controls, link, bad links and uploaded pictures."""

import io
from functools import partial

import numpy as np
import pytest
import torch
from PIL import Image

from mha_viz.learn.frame import stored_runs
from mha_viz.learn.labs.convolution import inputs, learning, measures
from mha_viz.learn.labs.convolution import numbers as convolution
from mha_viz.web.theme import format_number
from tests.making.comparing import near
from tests.making.pairwise import pairwise
from tests.ui.compare_app import check, matrices, said, table
from tests.ui.lab_app import answers, done_once, lab, link

KEY = "convolution"
FOLDS = dict.fromkeys(("sharpness", "at-the-border", "one-head", "cost"), "1")


def test_every_number_is_that_of_the_library():
    asked = dict(preset="edge", side="16", alpha="3", **FOLDS)
    app = lab(KEY, "both", "tiles", "sharpness", **asked)
    check(app)
    picture = inputs.picture("house", 16)
    kernel = torch.tensor(inputs.kernel_numbers("edge", 3))[None, None]
    shown = table(app, "Conv2d", "attention")
    expected = convolution.attended(picture, kernel, 3.0).flatten()
    assert shown["attention"].to_numpy() == near(expected.numpy())
    exact = torch.conv2d(picture[None, :, :, 0], kernel, padding=1).flatten()
    assert shown["Conv2d"].to_numpy() == near(exact.numpy())
    largest = float((expected - exact).abs().max())
    assert f"{largest:.4g}"[:4] in said(app) and "raise α" in said(app)
    heads = table(app, "rows down")
    at_8_8 = float(shown.query("row == 8 and column == 8")["attention"].iloc[0])
    assert heads["adds (first channel)"].sum() == near(at_8_8)
    assert len(table(app, "alpha", "bound")) > 10
    assert "times** as many; and 2.36 MB of weights" in said(app)  # 9 heads of 256 x 256 floats
    _, nine = measures.shuffle_gaps(picture)
    assert f"nine heads that blur by **{format_number(nine)}**" in said(app)


def test_controls_change_the_link_and_the_link_opens_them():
    app = lab(KEY)
    assert link(app) == {} and "That is rounding in float32" in check(app)
    app.slider(key=f"{KEY}-alpha").set_value(2.5)
    app.segmented_control(key=f"{KEY}-border").set_value("nearest")
    app.segmented_control(key=f"{KEY}-size").set_value(5)
    app.selectbox(key=f"{KEY}-preset").set_value("blur")
    app.slider(key=f"{KEY}-row-23").set_value(0).run()
    check(app)
    expected = {"alpha": "2.5", "border": "nearest", "size": "5", "preset": "blur", "row": "0"}
    assert link(app) == expected
    again = lab(KEY, **link(app))
    assert again.slider(key=f"{KEY}-row-23").value == 0
    assert "25 heads" in check(again)


def test_numbers_in_a_link_are_the_kernel():
    app = lab(
        KEY, "both", picture="dot", side="16", identity3="1,2,3;4,5,6;7,8,9", preset="identity"
    )
    check(app)
    values = table(app, "attention")["attention"].to_numpy().reshape(16, 16)
    assert values[7:10, 7:10].flatten() == near(np.arange(9, 0, -1))


@pairwise(dear=True, size=["1", "3", "5"], colour=["0", "1"], alpha=["0", "30"])
def test_every_size_comes_whole(size, colour, alpha):
    asked = dict(size=size, colour=colour, alpha=alpha, side="16", **FOLDS)
    check(lab(KEY, "both", "tiles", "sharpness", **asked))


def test_what_a_link_says_in_vain_is_told():
    bad = dict(
        picture="cat",
        side="33",
        colour="red",
        size="2",
        alpha="99",
        border="torus",
        row="-1",
        column="x",
        preset="<b>",
        sharpen3="1,2",
    )
    app = lab(KEY, **bad)
    text = check(app)
    assert len(app.warning) == len(bad) and all(name in text for name in bad)
    check(lab(KEY, row="31", column="31", side="16"))  # beyond this picture: its last pixel


def test_a_kernel_of_nothing():
    app = lab(KEY, sharpen3="0,0,0;0,0,0;0,0,0")
    assert "is **0**" in check(app)


@pytest.fixture
def once():
    with done_once("mha_viz.learn.labs.convolution.learning.learn"):
        yield


def upload(app, data, name="picture.png"):
    app.file_uploader(key=f"{KEY}-file").upload(name, data, "image/png").run()
    return app


def png(*size, mode="RGB"):
    held = io.BytesIO()
    Image.new(mode, size).save(held, "PNG")
    return held.getvalue()


def test_a_picture_of_ones_own():
    app = lab(KEY, picture="yours")
    assert "Choose a file" in check(app)
    assert "24 x 12 (rows x columns)" in check(upload(app, png(100, 200))).replace("\\", "")
    check(upload(lab(KEY, picture="yours", size="5"), png(1, 1)))
    check(upload(lab(KEY, picture="yours", size="5", colour="1"), png(3000, 1)))


def test_a_file_that_is_none_leaves_the_lab_usable():
    for data in (b"no picture", png(2100, 2000)):
        app = upload(lab(KEY, picture="yours"), data)
        assert not app.exception and len(app.error) == 1
        assert "PNG or JPEG" in app.error[0].value or "megapixels" in app.error[0].value
        app.selectbox(key=f"{KEY}-picture").set_value("rings").run()
        check(app)


def test_both_are_trained_when_asked_and_compared_on_new_pictures(monkeypatch, once):
    few = partial(learning.learn, (8, 16), n_steps=40)
    monkeypatch.setattr(learning, "learn", few)
    app = lab(KEY, "learning", learnseed="2", learning="1")
    assert "about half a minute" in check(app)
    app.button(key=f"{KEY}-train").click().run()
    text = check(app)
    expected = learning.learn(seed=2)
    shown = table(app, "pictures", "Conv2d, new pictures")
    assert list(shown["Conv2d, new pictures"]) == expected.unseen["convolution"]
    assert list(shown["nine heads, new pictures"]) == expected.unseen["heads"]
    assert f"{expected.parameters['heads']:,} parameters" in text
    at = expected.pattern.reshape(9, 8, 8, 8, 8)[:, 4, 4, 3:6, 3:6]
    assert f"{float(at.sum() / 9):.0%} of a head’s weight" in text
    assert link(app) == {"learnseed": "2", "learning": "1"}


def test_the_first_training_is_there_at_once():
    app = lab(KEY, "learning", learning="1")
    check(app)
    stored = stored_runs.read(convolution.STORED[0])
    shown = table(app, "pictures", "Conv2d, new pictures")
    assert list(shown["nine heads, new pictures"]) == stored.unseen["heads"]
    assert app.button(key=f"{KEY}-train").label == "Run it yourself"


def test_the_answers():
    asked = "same", "alpha", "border", "shuffle", "data", "exit"
    found = " ".join(answers(KEY, *asked, **FOLDS, learning="1"))
    assert "6.9%" in found and "replicate" in found and "Nine heads look" in found
    assert "sees no neighbours" in found


def test_the_chosen_pixel_is_framed_in_every_picture():
    app = lab(KEY, row="3", column="5")
    pictures = [shown for shown in matrices(app) if shown["scale"] == "grey"]
    assert [shown["marked"] for shown in pictures[:4]] == [[[3, 5]]] * 4
