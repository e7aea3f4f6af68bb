"""Draw the numbers of a transfer matrix again, without training its fifty networks.

    python experiments/matrix.py docs/figures/transfer_matrix.csv docs/figures/transfer_matrix.png

The numbers are what `refprior transfer-matrix --out FOLDER` wrote as FOLDER/matrix.csv.
"""

import argparse
import csv
from pathlib import Path

from refprior._files import write_figure
from refprior.report.matrix import matrix_figure, rows_matrix


def main() -> None:
    parser = argparse.ArgumentParser(prog="python experiments/matrix.py", description=__doc__.splitlines()[0])
    parser.add_argument("numbers", type=Path, help="matrix.csv of a transfer matrix")
    parser.add_argument("figure", type=Path, help="the picture to write (.png)")
    asked = parser.parse_args()
    with asked.numbers.open(newline="") as lines:
        write_figure(asked.figure, matrix_figure(rows_matrix(list(csv.reader(lines)))))


if __name__ == "__main__":
    main()
