"""The documentation says what is so: its links lead somewhere, its code and its commands run."""

import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest
import typer
from PIL import Image
from typer.testing import CliRunner

import mha_viz as mv
from docs import make_metrics
from docs.make_gallery import PAGE as GALLERY_PAGE
from docs.make_gallery import entries, pictures
from docs.picture_compare import changed_share
from mha_viz.cli.main import app
from mha_viz.core.metrics import METRICS
from mha_viz.ui.state import allowed, class_answers
from mha_viz.ui.state.links import from_params
from mha_viz.ui.state.views import View

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("models/*.md"),
        *ROOT.glob("models/*/README.md"),
    ]
)
NETWORK = "# from the Hub"  # marks a block of Python that a test must not run
COMMAND = typer.main.get_command(app)


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of that language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S)


def commands() -> Iterator[str]:
    for page in PAGES:
        for block in blocks(page, "sh"):
            yield from (line for line in block.splitlines() if line.startswith("mha-viz "))


def anchors(page: Path) -> set[str]:
    """The ids that GitHub gives to a page's headings."""
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.M | re.S)
    titles = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def links(page: Path) -> set[str]:
    """Targets of links and pictures that lie in the repository."""
    text = re.sub(r"^```.*?^```$|`[^`\n]*`", "", page.read_text("utf-8"), flags=re.M | re.S)
    found = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'(?:src|srcset)="([^"]+)"', text)
    return {target for target in found if not re.match(r"[a-z]+:", target)}


def test_the_page_of_metrics_is_what_the_table_says() -> None:
    hint = "docs/metrics.md is out of date: run python -m docs.make_metrics"
    assert make_metrics.PATH.read_text("utf-8") == make_metrics.render(), hint
    sources = " ".join(metric.source for metric in METRICS.values())
    papers = set(re.findall(r"[A-Z]\w+(?: et al\.| and \w+)? \d{4}", sources))
    assert papers and papers <= make_metrics.references().keys()


@pytest.mark.parametrize(
    ("page", "stated", "limit"),
    [
        ("hosting.md", r"no text above (\d+) characters", allowed.MAX_SHORT_TEXT),
        ("hosting.md", r"at most (\d+) classes", class_answers.MAX_CLASSES),
    ],
    ids=("characters", "classes"),
)
def test_limit_that_a_page_states_is_that_of_the_code(page: str, stated: str, limit: int) -> None:
    assert re.findall(stated, (ROOT / "docs" / page).read_text("utf-8")) == [str(limit)]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_leads_somewhere(page: Path) -> None:
    def leads_somewhere(target: str) -> bool:
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        inside = file.is_relative_to(ROOT) and file.exists()
        return inside and (not anchor or anchor in anchors(file))

    broken = sorted(target for target in links(page) if not leads_somewhere(target))
    assert not broken


def test_the_files_that_the_recipes_name_are_there() -> None:
    recipes = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("## Recipes")[2]
    paths = re.findall(r"`((?:[a-z_]+/)+(?:[a-z_]+\.[a-z]+)?)`", recipes)
    folders = (ROOT, ROOT / "mha_viz")
    assert len(paths) > 20
    assert [path for path in paths if not any((root / path).exists() for root in folders)] == []


@pytest.fixture
def _metrics_as_before() -> Iterator[None]:
    """The examples register one of their own."""
    before = dict(METRICS)
    yield
    METRICS.clear()
    METRICS.update(before)


@pytest.mark.usefixtures("_metrics_as_before", "without_the_app")
@pytest.mark.parametrize("name", [name(page) for page in PAGES if blocks(page, "python")])
def test_the_python_examples_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {}
    for block in blocks(ROOT / name, "python"):
        code = compile(block, name, "exec")
        if NETWORK not in block:
            exec(code, scope)
    assert scope


@pytest.mark.parametrize("line", sorted(set(commands())))
def test_the_commands_run(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text("The cat sat.\nIt slept because it was tired.\n")
    name, *arguments = shlex.split(line)[1:]
    if name == "app":  # it would not come back: its options are read, and no more
        with typer.Context(COMMAND) as context:
            COMMAND.commands[name].make_context(name, arguments, parent=context)
        return
    done = CliRunner().invoke(app, [name, *arguments])
    assert done.exit_code == 0, done.output
    if "--out" in arguments:
        file = tmp_path / arguments[arguments.index("--out") + 1]
        assert file.stat().st_size > 100
    else:
        assert done.stdout.strip()


GALLERY = GALLERY_PAGE.read_text("utf-8")
LINKS = re.findall(r"\((http://127\.0\.0\.1:8501/[^)]*)\)", GALLERY)
ENTRIES = entries()


@pytest.mark.parametrize("link", LINKS, ids=lambda link: urlsplit(link).query[:60])
def test_a_link_of_the_gallery_is_read_whole(link: str) -> None:
    params = dict(parse_qsl(urlsplit(link).query))
    view, problems = from_params(params)
    assert not problems
    assert all(hasattr(view, name) for name in params), params


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry[0].replace(" ", ""))
def test_the_head_of_the_gallery_has_most_of_it(entry: tuple[str, View, float]) -> None:
    name, view, stated = entry
    assert name == f"L{view.layer} H{view.head}"
    model = mv.load(view.model)
    record = model.trace(view.text, view.pair or None)
    scores = mv.head_report(record, model)[view.sort]
    assert divmod(int(scores.idxmax()), model.n_heads) == (view.layer, view.head)
    assert stated == pytest.approx(scores.max(), abs=0.006)


def test_every_entry_of_the_gallery_is_tested() -> None:
    assert len(ENTRIES) == GALLERY.count("\nDo not conclude: ") >= 8


def test_each_picture_of_the_gallery_shows_its_head() -> None:
    for path, png in pictures():
        assert f'src="images/{path.name}"' in GALLERY
        stored, drawn = Image.open(path), Image.open(io.BytesIO(png))
        assert stored.size == drawn.size and changed_share(drawn, stored) < 0.01, path
