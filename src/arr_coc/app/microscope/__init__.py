"""The microscope: a web page that shows what the library sees, decides and answers.

    from arr_coc.app.microscope.serving import serve
    serve()                      http://127.0.0.1:7860, for this machine only

One module for each tab (`*_tab`), `kit` for what tabs are built from, `page` around them, `desk` for what visitors
share, `serving` for safety. Needs `pip install 'arr-coc[microscope]'`.
"""

import os

# Before Gradio is imported: no analytics, no look for newer versions.
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
