#!/usr/bin/env bash
# Installs Home Assistant for tests into a virtual environment under the user's cache folder, once: about 365 MB from PyPI. Needs
# Python 3.13, PYTHON may name it. A half-made environment has another name, so that no test uses it.
set -euo pipefail
cd "$(dirname "$0")"

version=$(sed -n 's/^homeassistant==//p' requirements.txt)
target="${XDG_CACHE_HOME:-$HOME/.cache}/latchwork/home-assistant-$version"
if [ -x "$target/bin/python" ]; then
  echo "Home Assistant $version is installed in $target"
  exit
fi

python=
for candidate in ${PYTHON:+"$PYTHON"} python3.13 "$HOME"/.pyenv/versions/3.13.*/bin/python3.13; do
  if "$candidate" -c 'import sys, venv, pip; sys.exit(sys.version_info[:2] != (3, 13))' 2>/dev/null; then
    python=$candidate
    break
  fi
done
if [ -z "$python" ]; then
  echo "Home Assistant $version needs Python 3.13 with venv and pip: looked for \$PYTHON, python3.13 in PATH, and pyenv's 3.13" >&2
  exit 1
fi

mkdir -p "$(dirname "$target")"
partial=$(mktemp -d "$target.XXXXXX")
trap 'rm -rf "$partial"' EXIT
echo "Installing Home Assistant $version with $python into $target"
"$python" -m venv --without-pip "$partial"
"$python" -m pip --python "$partial" install --quiet --disable-pip-version-check --no-deps --only-binary :all: --no-compile -r requirements.txt
mv -T "$partial" "$target"
echo "Installed $(du -sm "$target" | cut -f1) MB in $SECONDS seconds"
