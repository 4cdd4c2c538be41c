<?xml version="1.0" encoding="UTF-8"?>
<!-- Turns Debian's iso-codes table of languages into a book: title, table with footnotes, list, running heads. -->
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform" xmlns:fo="http://www.w3.org/1999/XSL/Format">
  <xsl:param name="rows" select="20"/>

  <xsl:template match="/iso_639_entries">
    <fo:root font-family="serif" font-size="9pt">
      <fo:layout-master-set>
        <fo:simple-page-master master-name="left" page-width="148mm" page-height="210mm" margin="12mm">
          <fo:region-body margin-top="10mm" margin-bottom="10mm" column-count="2"/>
          <fo:region-before extent="8mm"/>
          <fo:region-after extent="8mm"/>
        </fo:simple-page-master>
        <fo:simple-page-master master-name="right" page-width="148mm" page-height="210mm" margin="12mm">
          <fo:region-body margin-top="10mm" margin-bottom="10mm"/>
          <fo:region-before extent="8mm"/>
        </fo:simple-page-master>
        <fo:page-sequence-master master-name="book">
          <fo:repeatable-page-master-alternatives>
            <fo:conditional-page-master-reference odd-or-even="odd" master-reference="right"/>
            <fo:conditional-page-master-reference odd-or-even="even" master-reference="left"/>
          </fo:repeatable-page-master-alternatives>
        </fo:page-sequence-master>
      </fo:layout-master-set>
      <fo:page-sequence master-reference="book">
        <fo:static-content flow-name="xsl-region-before">
          <fo:block text-align-last="justify">Languages <fo:leader leader-pattern="dots"/> <fo:page-number/></fo:block>
        </fo:static-content>
        <fo:flow flow-name="xsl-region-body">
          <fo:block font-size="18pt" space-after="6pt" span="all" id="top">Languages of the world</fo:block>
          <fo:block text-align="justify" orphans="2" widows="2">
            <xsl:for-each select="iso_639_entry[position() &lt;= $rows]">
              <xsl:value-of select="@name"/>
              <fo:inline font-style="italic" baseline-shift="super" font-size="70%"><xsl:value-of select="@iso_639_2T_code"/></fo:inline>
              <xsl:text>, </xsl:text>
            </xsl:for-each>
          </fo:block>
          <fo:table table-layout="fixed" width="100%" border-collapse="separate">
            <fo:table-column column-width="proportional-column-width(1)"/>
            <fo:table-column column-width="proportional-column-width(3)"/>
            <fo:table-column column-width="20mm"/>
            <fo:table-header>
              <fo:table-row font-weight="bold">
                <fo:table-cell border="0.5pt solid black"><fo:block>Code</fo:block></fo:table-cell>
                <fo:table-cell border="0.5pt solid black" number-columns-spanned="2"><fo:block>Name</fo:block></fo:table-cell>
              </fo:table-row>
            </fo:table-header>
            <fo:table-body>
              <xsl:apply-templates select="iso_639_entry[position() &lt;= $rows]"/>
            </fo:table-body>
          </fo:table>
          <fo:list-block provisional-distance-between-starts="12mm">
            <xsl:for-each select="iso_639_entry[@iso_639_1_code][position() &lt;= $rows]">
              <xsl:sort select="@name" order="descending"/>
              <fo:list-item space-before="2pt">
                <fo:list-item-label end-indent="label-end()"><fo:block><xsl:number value="position()" format="i"/></fo:block></fo:list-item-label>
                <fo:list-item-body start-indent="body-start()">
                  <fo:block keep-with-next.within-page="1"><xsl:value-of select="@name"/>, see
                    <fo:basic-link internal-destination="top"><fo:page-number-citation ref-id="top"/></fo:basic-link></fo:block>
                </fo:list-item-body>
              </fo:list-item>
            </xsl:for-each>
          </fo:list-block>
        </fo:flow>
      </fo:page-sequence>
    </fo:root>
  </xsl:template>

  <xsl:template match="iso_639_entry">
    <fo:table-row keep-together.within-column="always">
      <xsl:if test="position() mod 2 = 0"><xsl:attribute name="background-color">#eeeeee</xsl:attribute></xsl:if>
      <fo:table-cell border="0.5pt solid gray" padding="1pt"><fo:block><xsl:value-of select="@iso_639_2T_code"/></fo:block></fo:table-cell>
      <fo:table-cell border="0.5pt solid gray" padding="1pt">
        <fo:block><xsl:value-of select="@name"/>
          <xsl:if test="@iso_639_2T_code != @iso_639_2B_code">
            <fo:footnote>
              <fo:inline baseline-shift="super" font-size="70%"><xsl:number value="position()"/></fo:inline>
              <fo:footnote-body><fo:block font-size="7pt">also <xsl:value-of select="@iso_639_2B_code"/></fo:block></fo:footnote-body>
            </fo:footnote>
          </xsl:if>
        </fo:block>
      </fo:table-cell>
      <fo:table-cell border="0.5pt solid gray" padding="1pt" text-align="end"><fo:block><xsl:value-of select="string-length(@name)"/></fo:block></fo:table-cell>
    </fo:table-row>
  </xsl:template>
</xsl:stylesheet>
