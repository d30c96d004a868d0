"""Store the digits that scikit-learn ships, for a lab: `python -m models.store_digits`.

It needs scikit-learn, which nothing else of the app does. The pictures are the test set of the
"Optical Recognition of Handwritten Digits" of E. Alpaydin and C. Kaynak, 1998 (UCI Machine Learning
Repository, CC BY 4.0): 1,797 of 8 x 8 pixels, from 0 to 16.
"""

import torch
from safetensors.torch import save
from sklearn.datasets import load_digits

from mha_viz.core.output_file import write_file
from mha_viz.learn.networks.digits import FILE

ABOUT = {
    "source": "E. Alpaydin and C. Kaynak 1998, Optical Recognition of Handwritten Digits, UCI "
    "Machine Learning Repository, doi:10.24432/C50P49, by way of scikit-learn's load_digits",
    "licence": "CC BY 4.0",
}


def main() -> None:
    found = load_digits()
    pictures, labels = (torch.tensor(part).to(torch.uint8) for part in (found.images, found.target))
    write_file(FILE, save({"pictures": pictures, "labels": labels}, ABOUT))


if __name__ == "__main__":
    main()
