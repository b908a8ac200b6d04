"""Chinese colours, places, words about reading and ordinals, searched for in text that has no spaces."""

from __future__ import annotations

import re

from .lexicon import LAST, CoupledWords, Ordinal, table, words_in

# Chinese is written without spaces: words are searched for, longer ones first; those that mean nothing here hide the
# shorter ones inside them, as 现金 (cash) hides 金.
COLOURS = table("""
red: 红色 紅色 红 紅 赤色 大红
orange: 橙色 橘色 橙黄
yellow: 黄色 黃色 黄 黃
green: 绿色 綠色 绿 綠
blue: 蓝色 藍色 蓝 藍 天蓝 深蓝 浅蓝
purple: 紫色 紫
pink: 粉色 粉红色 粉红 粉紅 桃红
brown: 棕色 褐色 咖啡色 棕 褐
black: 黑色 黑
white: 白色 白
grey: 灰色 灰
cyan: 青色
turquoise: 青绿色 绿松石色
beige: 米色 米黄
gold: 金色 金黄
silver: 银色 銀色
""")
PLACES = table("""
top: 上方 上面 上边 上部 上端 顶部 頂部 顶端 最上
bottom: 下方 下面 下边 下部 下端 底部 底端 最下
left: 左边 左邊 左侧 左側 左面 左方 最左
right: 右边 右邊 右侧 右側 右面 右方 最右
centre: 中间 中間 中央 中心 正中 当中
corner: 角落
top left: 左上角 左上方 左上
top right: 右上角 右上方 右上
bottom left: 左下角 左下方 左下
bottom right: 右下角 右下方 右下
""")
READING = words_in("""
文字 数字 數字 号码 號碼 价格 價格 价钱 多少钱 多少 总计 总额 总价 合计 小计 总数 金额 金額 税 日期 年份 月份 电话 電話
传真 地址 名字 姓名 名称 标题 標題 标签 编号 代码 签名 发票 收据 百分比 百分之 单词 字母 写着 写了 写的 寫著 写 寫 读作
几点 哪一年 什么字
""")
OTHERWISE = words_in("""
红包 红茶 红酒 红利 红十字 红烧 网红 分红 口红 黑板 黑客 黑市 白天 明白 空白 白菜 白领 蓝领 白皮书 白宫 黄瓜 黄金 黄油
黄河 绿茶 绿化 绿党 绿卡 蓝牙 蓝图 灰尘 紫菜 下面的问题 上面的问题 下面的句子 以上 以下 购物中心 数据中心 医疗中心
服务中心 中心思想 描写 书写 编写
""")
NUMERALS = {numeral: number for number, numeral in enumerate("一二三四五六七八九十", 1)}

_MEANING = {
    **{word: ("colour", meaning) for word, meaning in COLOURS.items()},
    **{word: ("place", meaning) for word, meaning in PLACES.items()},
    **dict.fromkeys(READING, ("reading", "")),
    **dict.fromkeys(OTHERWISE, ("", "")),
}
_WORD = re.compile("|".join(sorted(_MEANING, key=len, reverse=True)))
_ORDINAL = re.compile(r"(?:第([一二三四五六七八九十]|\d{1,2})|(最后一))(行|列|张|个|幅|排)")


def with_chinese(found: CoupledWords, text: str) -> CoupledWords:
    """What was found in other letters, and the Chinese words."""
    by_kind: dict[str, dict[str, str]] = {"colour": {}, "place": {}, "reading": {}, "": {}}
    for one in _WORD.finditer(text):
        kind, meaning = _MEANING[one[0]]
        by_kind[kind][one[0]] = meaning
    ordinals = tuple(
        Ordinal(LAST if last else NUMERALS.get(number) or int(number), f"第{number}{unit}" if number
                else f"最后一{unit}", unit == "行")
        for number, last, unit in _ORDINAL.findall(text)
    )  # fmt: skip
    colours, places = by_kind["colour"], by_kind["place"]
    if re.search(r"[从從][左右上下].*第", text):  # counted from there
        places = {}
    kinds = dict.fromkeys(kind for meaning in places.values() for kind in meaning.split())
    return CoupledWords(
        colours=(*found.colours, *colours),
        places=(*found.places, *places),
        reading=(*found.reading, *by_kind["reading"]),
        ordinals=(*found.ordinals, *ordinals),
        colour_names=tuple(dict.fromkeys((*found.colour_names, *colours.values()))),
        place_kinds=tuple(dict.fromkeys((*found.place_kinds, *kinds))),
        language="Chinese",
    )
